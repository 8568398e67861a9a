"""The parser's dial: iterations of BP, arcs kept, sentences that settle, second order only where it should pay.

In: EWT. Out: :class:`~dial_rows.Dial`. An answer is from words and tags to heads: encoding, pruning, scores, inference,
decoding; files and relations are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common import folder_in
from dial_rows import Dial, Setting
from loopwise.apps.parser.arcs import Arcs, Pruner
from loopwise.apps.parser.estimator import Parser
from loopwise.apps.parser.model import Parses, TreeModel
from loopwise.apps.parser.options import ParserStructure, Pruning, Templates, TreeInference
from loopwise.apps.parser.vocabulary import ParserVocabulary, SentenceArrays, encode
from loopwise.budget import Escalation
from loopwise.formats.conllu import Sentence, read_conllu
from loopwise.inference.messages.message_passing import BP

SENTENCES = 2000  # to train on: minutes
TIMED = 500  # of the test sentences; errors are of all
PAIRS = ("grandparent", "sibling")
ITERATIONS = (1, 2, 4, 8)
BASE = 2  # iterations that the model of most settings is trained for
TRAINED = (2, 4)  # models that there are
HEADS = (10, 6, 4, 3, 2)
THRESHOLDS = (1e-3, 1e-2)
TOLERANCES = (0.3, 0.1, 0.01)
SHARES = (0.1, 0.25, 0.5, 0.75)  # of the sentences of the development set that go on to the second order

Heads = NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """What turns sentences into heads: pruning, then a model."""

    vocabulary: ParserVocabulary
    pruner: Pruner
    model: TreeModel

    @staticmethod
    def of(parser: Parser) -> Chain:
        return Chain(parser.vocabulary, parser.pruner, parser.model)

    def under(self, iterations: int, tolerance: float = 0.0) -> Chain:
        """The same weights with other iterations; 0: arcs alone."""
        structure = self.model.structure if iterations else ParserStructure.of((), True, True)
        run = TreeInference.of(BP(iterations=max(1, iterations), tolerance=tolerance), structure)
        return replace(self, model=replace(self.model, run=run, structure=structure))

    def keeping(self, heads: int | None = None, threshold: float | None = None) -> Chain:
        """With another pruning."""
        options = self.pruner.options
        assert options is not None
        changed = replace(
            options,
            heads=options.heads if heads is None else heads,
            threshold=options.threshold if threshold is None else threshold,
        )
        return replace(self, pruner=replace(self.pruner, options=changed))

    def arcs(self, corpus: SentenceArrays) -> Arcs:
        return self.pruner.arcs(corpus, self.model.structure, self.vocabulary.tags)

    def parse(self, corpus: SentenceArrays, arcs: Arcs | None = None) -> Parses:
        return self.model.parse(corpus, self.arcs(corpus) if arcs is None else arcs, self.vocabulary.tags)

    def heads(self, sentences: list[Sentence]) -> Heads:
        return self.parse(encode(sentences, self.vocabulary)).heads


@dataclass(frozen=True)
class Cascade:
    """First order for all; second order, from the same arcs, where its expected gain is worth the price a word."""

    cheap: Chain
    dear: Chain
    rule: Escalation
    price: float

    def heads(self, sentences: list[Sentence]) -> Heads:
        corpus = encode(sentences, self.cheap.vocabulary)
        arcs = self.cheap.arcs(corpus)
        parses = self.cheap.parse(corpus, arcs)
        chosen = np.flatnonzero(self.rule.chosen(doubts(corpus, parses), corpus.lengths, self.price))
        heads = parses.heads.copy()
        if len(chosen):
            some = corpus.select(chosen)
            again = self.dear.parse(some, picked(arcs, chosen)).heads
            inside = np.zeros(len(heads), bool)
            for sentence in chosen:
                inside[corpus.start[sentence] : corpus.start[sentence + 1]] = True
            heads[inside] = again
        return heads


def picked(arcs: Arcs, chosen: NDArray[np.int64]) -> Arcs:
    """The arcs of some sentences."""
    counts = np.diff(arcs.start)[chosen]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.arange(start[-1]) + np.repeat(arcs.start[chosen] - start[:-1], counts)
    return Arcs(start, arcs.heads[rows], arcs.mods[rows])


def doubts(corpus: SentenceArrays, parses: Parses) -> NDArray[np.float64]:
    """What a parse says of its mistakes, a row a sentence: expected wrong heads, doubtful words, the worst, words."""
    words = corpus.word_columns
    wrong = 1.0 - parses.confidence(corpus)[words]
    first = np.concatenate([[0], np.cumsum(corpus.lengths)[:-1]])
    return np.stack(
        [
            np.add.reduceat(wrong, first),
            np.add.reduceat((wrong > 0.1).astype(float), first),
            np.maximum.reduceat(wrong, first),
            corpus.lengths.astype(float),
        ],
        axis=1,
    )


def mistakes(corpus: SentenceArrays, heads: Heads) -> NDArray[np.float64]:
    """Wrong heads of each sentence."""
    words = corpus.word_columns
    wrong = (heads[words] != corpus.heads[words]).astype(float)
    return np.add.reduceat(wrong, np.concatenate([[0], np.cumsum(corpus.lengths)[:-1]]))


def error(corpus: SentenceArrays, heads: Heads) -> float:
    """100 - UAS."""
    return 100.0 * float(mistakes(corpus, heads).sum()) / corpus.words


def parser_dial(data: Path, quick: bool, folder: Path | None) -> Dial:
    """Trains, checks and lists."""
    source = folder_in(data, "ud", "UD_English-EWT")
    train, dev, test = (_sentences(source, part) for part in ("train", "dev", "test"))
    if quick:
        train, dev, test = train[:500], dev[:300], test[:300]
    else:
        train = train[:SENTENCES]
    first = Chain.of(trained(train, (), 1, quick, folder))
    second = {t: Chain.of(trained(train, PAIRS, t, quick, folder)) for t in ([BASE] if quick else TRAINED)}
    check(first, second[BASE], test[:TIMED])
    settings = list_settings(first, second, dev, test)
    about = {"train": len(train), "dev": len(dev), "test": len(test), "words": sum(map(len, test))}
    return Dial("Dependency parser, EWT", "sentences", "wrong heads, %", min(TIMED, len(test)), settings, about)


def _sentences(source: Path, part: str) -> list[Sentence]:
    return [sentence for sentence in read_conllu(next(source.glob(f"*{part}.conllu.gz"))) if len(sentence)]


def trained(
    train: list[Sentence], factors: tuple[str, ...], iterations: int, quick: bool, folder: Path | None
) -> Parser:
    """Kept in the folder, if there is one."""
    path = None if folder is None else folder / f"parser-{len(factors)}-{iterations}-{len(train)}.loopwise"
    if path is not None and path.exists():
        return Parser.load(path)
    parser = Parser(
        factors,
        BP(iterations=iterations, tolerance=0.0),
        templates=Templates(size=8_000_000),
        pruning=Pruning(size=4_000_000, folds=1 if quick else 2, epochs=2),
    )
    parser.fit(train, epochs=2 if quick else 4, threads=1, labels=False, progress=sys.stderr.isatty())
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        parser.save(path)
    return parser


def list_settings(first: Chain, second: dict[int, Chain], dev: list[Sentence], test: list[Sentence]) -> list[Setting]:
    corpus, base, made, some = encode(test, first.vocabulary), second[BASE], [], test[:TIMED]

    def add(curve: str, name: str, answer: Callable[[list[Sentence]], Heads], **notes: float) -> None:
        made.append(Setting(curve, name, lambda: answer(some), error(corpus, answer(test)), notes))

    for count, chain in second.items():
        add("iterations, trained for them", f"{count}", chain.heads)
    add("iterations, trained for them", "0 (first order)", first.heads)
    for count in (0, *ITERATIONS):
        add(f"iterations, trained for {BASE}", f"{count}", base.under(count).heads)
    for heads in HEADS:
        add("heads kept", f"{heads}", base.keeping(heads=heads).heads, **arc_notes(base.keeping(heads=heads), corpus))
    for threshold in THRESHOLDS:
        chain = base.keeping(threshold=threshold)
        add("pruning threshold", f"{threshold:g}", chain.heads, **arc_notes(chain, corpus))
    deepest = second[max(second)]
    for tolerance, mean in mean_iterations(deepest, encode(some, first.vocabulary)).items():
        chain = deepest.under(max(ITERATIONS), tolerance)
        add("settled sentences stop", f"change {tolerance:g}", chain.heads, iterations=mean)
    for cascade, share in cascades(first, base, dev, SHARES):
        add("second order where it pays", f"{share:.0%} of sentences", cascade.heads)
    for cascade, share in cascades(first, base.keeping(heads=4), dev, SHARES[1:3], heads=4):
        add("where it pays, 4 heads kept", f"{share:.0%} of sentences", cascade.heads)
    return made


def arc_notes(chain: Chain, corpus: SentenceArrays) -> dict[str, float]:
    return {"arcs_a_word": round(len(chain.arcs(corpus).heads) / corpus.words, 2)}


def cascades(
    first: Chain, dear: Chain, dev: list[Sentence], shares: tuple[float, ...], heads: int | None = None
) -> list[tuple[Cascade, float]]:
    """One rule, learnt on sentences that trained nothing, and the prices at which it hands on such shares of them."""
    cheap = first if heads is None else first.keeping(heads=heads)
    corpus = encode(dev, cheap.vocabulary)
    parses = cheap.parse(corpus)
    features, dearer = doubts(corpus, parses), dear.parse(corpus).heads
    rule = Escalation.fit(features, mistakes(corpus, parses.heads) - mistakes(corpus, dearer))
    worth = rule.gain(features) / corpus.lengths
    return [(Cascade(cheap, dear, rule, max(0.0, float(np.quantile(worth, 1 - share)))), share) for share in shares]


def mean_iterations(chain: Chain, corpus: SentenceArrays) -> dict[float, float]:
    """How many iterations sentences make until no belief moves by more than each tolerance; the parser's own stopping
    must give the beliefs of just that iteration."""
    arcs, limit, found = chain.arcs(corpus), max(ITERATIONS), {}
    runs = [chain.under(count).parse(corpus, arcs).beliefs for count in range(1, limit + 1)]
    sentence = np.repeat(np.arange(len(corpus)), np.diff(arcs.start))
    for tolerance in TOLERANCES:
        stops = np.full(len(corpus), limit)
        for count in range(limit, 1, -1):
            moved = np.zeros(len(corpus))
            np.maximum.at(moved, sentence, np.abs(runs[count - 1] - runs[count - 2]))
            stops[moved <= tolerance] = count
        stopped = chain.under(limit, tolerance).parse(corpus, arcs).beliefs
        if not np.abs(stopped - np.choose(stops[sentence] - 1, runs)).max() < 1e-9:
            sys.exit("sentences that stop by themselves do not believe what they did then: nothing was timed")
        found[tolerance] = round(float(stops.mean()), 3)
    return found


def check(first: Chain, second: Chain, test: list[Sentence]) -> None:
    """Both parse, from the same arcs, and handing everything on is the second order itself."""
    corpus = encode(test, first.vocabulary)
    if first.vocabulary != second.vocabulary or not np.array_equal(first.pruner.weights, second.pruner.weights):
        sys.exit("first and second order were not trained on the same sentences: delete their files")
    baseline = 100.0 * float(np.mean([head != place for s in test for place, head in enumerate(s.heads)]))
    alone = second.heads(test)
    for heads in (first.heads(test), alone):
        if error(corpus, heads) > baseline - 20:
            sys.exit("a parser is hardly better than attaching every word to the one before it: nothing was timed")
    everything = Cascade(first, second, Escalation(np.zeros(4), np.zeros(4), np.ones(4), 1.0), 0.0)
    if not np.array_equal(everything.heads(test), alone):
        sys.exit("a cascade that hands on all sentences differs from the second order: nothing was timed")
