"""Speed of the dependency parser on English: sentences a second, second order against first, one thread against two.

    python benchmarks/parser.py [--quick] [--sentences 3000]

Two parsers are trained on the beginning of EWT's training set (first order; grandparents and siblings with 2 iterations
of BP), then parse its test set, features, pruning, inference, decoding and relations included, files left out. Before
anything is timed: both must beat attaching every word to the one before it, and one thread must give the trees and the
weights of two. Cost against length is measured on sentences of random arcs, ten heads a word, as pruning leaves them.
Last line of output: JSON with `sentences_per_second` (second order, one thread), `second_over_first` (time),
`threads_gain` (of an epoch of training), `cost_exponent` (from 20 words on), `gradient_over_beliefs` (a training step
against inference alone, the paper: about 2; also with all arcs of 20 words), `exact_over_bp_by_length` (grandparents
only, step against step) and more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common import DEFAULT_DATA, folder_in, option_parser, print_summary
from loopwise.apps.parser.estimator import Parser
from loopwise.apps.parser.features.parts import GRANDPARENTS, PROJECTIVE, SIBLINGS, SINGLE_ROOT, list_pairs
from loopwise.apps.parser.options import Pruning, Templates
from loopwise.formats.conllu import Sentence, read_conllu
from loopwise.inference.families.tree_models import TreeModels
from loopwise.inference.messages.message_passing import BP
from timing import medians

ITERATIONS = 2
LENGTHS = (10, 20, 40, 80, 160)
UNPRUNED = 20  # words of the sentence that keeps all its arcs


@dataclass(frozen=True)
class Data:
    train: list[Sentence]
    test: list[Sentence]


def main() -> None:
    options = option_parser(__doc__.splitlines()[0])
    options.add_argument("--sentences", type=int, default=None, help="training sentences (default 3000, quick 600)")
    chosen = options.parse_args()
    folder = folder_in(chosen.data or DEFAULT_DATA, "ud", "UD_English-EWT")
    train = read_conllu(next(folder.glob("*train.conllu.gz")))
    test = read_conllu(next(folder.glob("*test.conllu.gz")))
    count = chosen.sentences or (600 if chosen.quick else 3000)
    data = Data(train[:count], test[:300] if chosen.quick else test)
    repeats = 3 if chosen.quick else 5
    second, first = trained(data, ("grandparent", "sibling")), trained(data, ())
    check(second, first, data)
    seconds = medians(
        {
            "second": lambda: second.predict(data.test, threads=1),
            "first": lambda: first.predict(data.test, threads=1),
            "threaded": lambda: second.predict(data.test, threads=2),
        },
        repeats,
    )
    epochs = {threads: epoch_seconds(data, threads) for threads in (1, 2)}
    pruned = {n: medians(Arcs.draw(n, GRANDPARENTS | SIBLINGS, 10).runs(), repeats) for n in LENGTHS}
    costs = {n: found["gradient"] for n, found in pruned.items()}
    whole = medians(Arcs.draw(UNPRUNED, GRANDPARENTS | SIBLINGS, UNPRUNED).runs(), repeats)
    exact = {n: medians(Arcs.draw(n, GRANDPARENTS, 10).runs(), repeats) for n in LENGTHS[:-1]}
    exponent = np.polyfit(np.log(LENGTHS[1:]), np.log([costs[n] for n in LENGTHS[1:]]), 1)[0]
    print_summary(
        {
            "sentences_per_second": round(len(data.test) / seconds["second"], 1),
            "first_order_sentences_per_second": round(len(data.test) / seconds["first"], 1),
            "second_over_first": round(seconds["second"] / seconds["first"], 3),
            "two_threads_sentences_per_second": round(len(data.test) / seconds["threaded"], 1),
            "epoch_seconds": round(epochs[1], 2),
            "threads_gain": round(epochs[1] / epochs[2], 3),
            "milliseconds_by_length": {str(n): round(1e3 * value, 3) for n, value in costs.items()},
            "cost_exponent": round(float(exponent), 3),
            "gradient_over_beliefs": round(pruned[20]["gradient"] / pruned[20]["beliefs"], 3),
            "gradient_over_beliefs_unpruned": round(whole["gradient"] / whole["beliefs"], 3),
            "unpruned_over_pruned": round(whole["gradient"] / costs[UNPRUNED], 3),
            "exact_over_bp_by_length": {
                str(n): round(found["exact"] / found["gradient"], 3) for n, found in exact.items()
            },
            "train_sentences": len(data.train),
            "test_sentences": len(data.test),
        }
    )


def trained(data: Data, factors: tuple[str, ...], threads: int = 1, epochs: int = 2) -> Parser:
    parser = Parser(
        factors,
        BP(iterations=ITERATIONS),
        templates=Templates(size=8_000_000),
        pruning=Pruning(size=4_000_000, folds=1),
    )
    parser.fit(data.train, epochs=epochs, threads=threads)
    return parser


def check(second: Parser, first: Parser, data: Data) -> None:
    """The parsers parse, and threads change nothing."""
    right = sum(head == place for sentence in data.test for place, head in enumerate(sentence.heads))
    baseline = right / sum(map(len, data.test))
    for parser in (second, first):
        reached = parser.evaluate(data.test).uas
        if reached < baseline + 0.2:
            sys.exit(f"UAS {reached:.3f} is no better than the baseline, {baseline:.3f}: nothing to time")
    alone, together = second.predict(data.test, threads=1), second.predict(data.test, threads=2)
    if [s.lines for s in alone] != [s.lines for s in together]:
        sys.exit("one thread and two give different trees")
    few = Data(data.train[:60], data.test)
    one, two = (trained(few, ("grandparent", "sibling"), threads, 1).model.weights for threads in (1, 2))
    if not np.array_equal(one, two):
        sys.exit("one thread and two give different weights")


def epoch_seconds(data: Data, threads: int) -> float:
    """One epoch of trees, second order; the second of two."""
    parser = trained(data, ("grandparent", "sibling"), threads)
    return parser.history[-1].seconds


@dataclass(frozen=True)
class Arcs:
    """Random arcs of one sentence with random scores."""

    n: int
    heads: np.ndarray
    mods: np.ndarray
    structure: int

    @staticmethod
    def draw(n: int, factors: int, most: int) -> Arcs:
        """At most ``most`` heads a word, ``n`` for all of them; arcs of no tree are dropped."""
        rng = np.random.default_rng(n)
        arcs = [
            (h, m)
            for m in range(1, n + 1)
            for h in sorted({m - 1, *(k for k in rng.choice(n + 1, min(most, n), replace=False).tolist() if k != m)})
        ]
        heads, mods = (np.array(column, np.int32) for column in zip(*arcs, strict=True))
        found = Arcs(n, heads, mods, factors | PROJECTIVE | SINGLE_ROOT)
        alive = found.models().first_order().propagate(np.zeros(len(heads)), np.zeros(0)).log_beliefs > -np.inf
        return Arcs(n, heads[alive], mods[alive], found.structure)

    def models(self) -> TreeModels:
        first, second, _ = list_pairs(self.n, self.heads, self.mods, self.structure)
        return TreeModels.of(
            np.array([self.n]), np.array([0, len(self.heads)]), self.heads, self.mods, np.array([0, len(first)]), first,
            second, single_root=True,
        )  # fmt: skip

    def runs(self) -> dict[str, Callable[[], object]]:
        """Beliefs alone, and with the gradient of L2; with exact inference where there are grandparents alone."""
        rng, models = np.random.default_rng(self.n), self.models()
        unary, scores = rng.normal(size=len(self.heads)), rng.normal(size=len(models.arrays.first))
        gold = (self.heads == self.mods - 1).astype(np.float64)

        def gradient() -> object:
            run = models.propagate(unary, scores, ITERATIONS, taped=True)
            return run.pull_back(4.0 * (run.beliefs - gold))

        def exact() -> object:
            run = models.exact(unary, scores)
            return run.pull_back(4.0 * (run.beliefs - gold))

        found: dict[str, Callable[[], object]] = {
            "beliefs": lambda: models.propagate(unary, scores, ITERATIONS).beliefs,
            "gradient": gradient,
        }
        if not self.structure & SIBLINGS:
            found["exact"] = exact
        return found


if __name__ == "__main__":
    main()
