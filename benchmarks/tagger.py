"""Likelihood training of a chain CRF: ours against crfsuite's L-BFGS, the same features and the same objective.

    python benchmarks/tagger.py [--quick] [--corpus wnut17|portuguese|danish] [--iterations 100]

Both sides get the features that our default templates find, by number, and minimise the negative log-likelihood with
the same L2 penalty over the same weights. crfsuite runs first; ours is timed until it reaches the value that crfsuite
ended with. Twice: with a weight for every feature and tag, and with weights only for pairs that occur (crfsuite's
default). Before anything is timed, the objective of crfsuite's final weights is recomputed by ours on a small part and
must agree; F1 on the test data is that of both. Reading, extraction and crfsuite's copying of features are not counted.
Times on one thread are of the processor (crfsuite reports no others), those on all cores by the clock. Last line of
output: JSON with `vs_crfsuite` (the smaller ratio, one thread each), `vs_crfsuite_threads` (ours on all cores), `f1`,
`crfsuite_f1` and more.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from common import folder_in, option_parser, print_summary
from loopwise.apps.chain import ChainLikelihood, Tagger, Viterbi
from loopwise.apps.chain.features.text import Text, tag_numbers
from loopwise.apps.chain.report import compare
from loopwise.compiled.threads import available_threads
from loopwise.formats.columns import TaggedText, read_tagged
from loopwise.inference.families.chains import Chains
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.trainer import train
from studies.samplerank.names.crfsuite import CrfSuite
from studies.samplerank.names.data import part_of

FILES = {
    "wnut17": ("wnut17", "wnut17train.conll.gz", "emerging.test.annotated.gz"),
    "portuguese": ("UNER_Portuguese-Bosque", "pt_bosque-ud-train.iob2.gz", "pt_bosque-ud-test.iob2.gz"),
    "danish": ("UNER_Danish-DDT", "da_ddt-ud-train.iob2.gz", "da_ddt-ud-test.iob2.gz"),
}
PENALTY = 0.5  # crfsuite's c2, half of our l2

Integers = NDArray[np.int64]


@dataclass
class Contest:
    """A training and a test text as both sides see them."""

    tagger: Tagger
    train: ChainProblem
    test: ChainProblem
    test_gold: Integers

    @staticmethod
    def of(train: TaggedText, test: TaggedText) -> Contest:
        tagger = Tagger(threads=1, decoder=Viterbi(valid=False))  # without rules, as crfsuite
        problem = tagger.problem(Text.of(train), train)
        tagger.weights_ = problem.start()
        text, prepared = tagger.prepared(test)
        return Contest(tagger, problem, prepared, tag_numbers(test, text, tagger.labels_))

    def score(self, tags: Integers) -> float:
        return compare(self.test_gold, tags, self.test.chains.start, self.tagger.labels_).score

    def ours(self, seen_only: bool, threads: int, target: float) -> tuple[float, int, ChainWeights]:
        """Seconds and iterations until the objective is at most ``target``; the weights then.

        On one thread seconds of the processor, otherwise by the clock.
        """
        problem = replace(self.train, chains=Chains(self.train.chains.start, threads))
        learner = ChainLikelihood(l2=2 * PENALTY, iterations=2000, tolerance=1e-15, seen_only=seen_only)
        clock = time.process_time if threads == 1 else time.perf_counter
        # Linear algebra has threads of its own, which wait at the processor's expense where they are not needed.
        with threadpool_limits(threads):
            begin = clock()
            start = problem.start()
            goal = learner.objective(problem, start, 0)
            history = train(goal, learner.limits, callbacks=[lambda epoch: epoch.loss <= target])
            weights, seconds = start.like(goal.answer), clock() - begin
        if history.losses[-1] > target:
            raise SystemExit(f"ours ended at {history.losses[-1]}, above {target}: nothing is compared")
        return seconds, len(history.losses), weights


def weights_of(contest: Contest, other: CrfSuite) -> ChainWeights:
    """The weights of crfsuite's model in our shape."""
    info, found = other.info, contest.train.start()
    place = {label: number for number, label in enumerate(contest.tagger.labels_)}
    for (attribute, label), weight in info.state_features.items():
        found.unary[int(attribute), place[label]] = weight
    for (one, two), weight in info.transitions.items():
        found.pair[0, place[one] * len(place) + place[two]] = weight
    return found


def objective(problem: ChainProblem, weights: ChainWeights) -> float:
    value, _ = NegativeLogLikelihood(problem)(weights)
    return value + PENALTY * float(weights.vector @ weights.vector)


def check(contest: Contest, folder: Path) -> None:
    """Stops if both sides do not mean the same objective: crfsuite's final value is that of its weights by ours."""
    for seen_only in (False, True):
        other = CrfSuite(contest.train, 2 * PENALTY, 30, folder / "check", seen_only=seen_only, tolerance=1e-12)
        mine = objective(contest.train, weights_of(contest, other))
        if not abs(mine - other.losses[-1]) <= 1e-4 * abs(mine):
            raise SystemExit(f"crfsuite says {other.losses[-1]}, ours {mine} for its weights: nothing was timed")


def compete(contest: Contest, seen_only: bool, iterations: int, folder: Path) -> dict[str, float]:
    name = "pairs that occur" if seen_only else "all pairs"
    other = CrfSuite(contest.train, 2 * PENALTY, iterations, folder / "model", seen_only=seen_only, tolerance=1e-12)
    target = other.losses[-1]
    seconds, rounds, weights = contest.ours(seen_only, 1, target)
    threaded, _, _ = contest.ours(seen_only, available_threads(), target)
    decide = Viterbi(valid=False).decide
    scores = [
        contest.score(decide(contest.test.chains, *contest.test.scores(weights), contest.tagger.labels_)),
        contest.score(other.tags(contest.test)),
    ]
    print(
        f"{name}: to the objective {target:.2f} crfsuite {other.seconds:.2f} s ({len(other.losses)} iterations), ours "
        f"{seconds:.2f} s ({rounds} iterations); by the clock crfsuite {other.elapsed:.2f} s, ours on "
        f"{available_threads()} threads {threaded:.2f} s; F1 crfsuite {scores[1]:.4f}, ours {scores[0]:.4f}",
        flush=True,
    )
    return {
        "ratio": other.seconds / seconds,
        "threads": other.elapsed / threaded,
        "a_round": (other.seconds / len(other.losses)) / (seconds / rounds),
        "f1": scores[0],
        "crfsuite_f1": scores[1],
    }


def main() -> None:
    parser = option_parser(__doc__.splitlines()[0])
    parser.add_argument("--corpus", choices=FILES, default="wnut17", help="what to train on (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=100, help="of crfsuite (default: %(default)s)")
    options = parser.parse_args()
    try:
        import pycrfsuite  # noqa: F401
    except ImportError:
        raise SystemExit("python-crfsuite is not installed: pip install python-crfsuite") from None
    name, train, test = FILES[options.corpus]
    folder = folder_in(options.data, "ner", name)
    texts = read_tagged(folder / train), read_tagged(folder / test)
    small = Contest.of(part_of(texts[0], 0, 100), part_of(texts[0], 0, 100))
    with tempfile.TemporaryDirectory() as scratch:
        check(small, Path(scratch))  # and compiles
        contest = Contest.of(part_of(texts[0], 0, 800), texts[1]) if options.quick else Contest.of(*texts)
        print(f"{contest.train.tokens} tokens, {contest.train.unary.features} features, {contest.train.states} tags")
        iterations = min(options.iterations, 30) if options.quick else options.iterations
        found = {
            "all_pairs": compete(contest, False, iterations, Path(scratch)),
            "seen_pairs": compete(contest, True, iterations, Path(scratch)),
        }
    print_summary(
        {
            "vs_crfsuite": min(one["ratio"] for one in found.values()),
            "vs_crfsuite_threads": min(one["threads"] for one in found.values()),
            "f1": found["seen_pairs"]["f1"],
            "crfsuite_f1": found["seen_pairs"]["crfsuite_f1"],
            "corpus": options.corpus,
            **found,
        }
    )


if __name__ == "__main__":
    main()
