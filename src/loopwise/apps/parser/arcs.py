"""Which arcs a model sees: length bounds, a first-order model, and how much of the gold trees is left.

In: a corpus. Out: :class:`Arcs`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.parser.options import ParserStructure, Pruning, Templates
from loopwise.apps.parser.vocabulary import RESERVED, Integers, ParserVocabulary, SentenceArrays
from loopwise.compiled.threads import in_threads
from loopwise.graph.offsets import starts_of
from loopwise.learn.hashed import split_by_cost
from loopwise.learn.optim.hashed import Floats, Small

UNBOUNDED = np.iinfo(np.int32).max
AT_ONCE = 1 << 14  # n^2 of the sentences whose arcs are held at a time
NO_PAIRS = np.zeros(0)
NO_ARCS = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)
BASIC = Templates(full=False, coarse=False, rich=False)  # words and tags of head and modifier: what pruning looks at


@dataclass(frozen=True, eq=False)
class Arcs:
    """Sentence s may have the arcs ``start[s]`` to ``start[s + 1]``, sorted by modifier, then head."""

    start: Integers
    heads: Small
    mods: Small

    def with_heads(self, corpus: SentenceArrays, heads: Small) -> Arcs:
        """The same and those of a tree a sentence, ``heads[columns]``."""
        columns = corpus.word_columns
        widest = int(corpus.lengths.max(initial=0)) + 1
        keys = np.union1d(
            self._columns(corpus).astype(np.int64) * widest + self.heads,
            columns[heads[columns] >= 0] * widest + heads[columns[heads[columns] >= 0]],
        )
        modifier, head = keys // widest, keys % widest
        sentence = np.searchsorted(corpus.start, modifier, side="right") - 1
        start = np.searchsorted(sentence, np.arange(len(corpus) + 1))
        mods = modifier - corpus.start[sentence] - 1
        return Arcs(start.astype(np.int64), head.astype(np.int32), mods.astype(np.int32))

    def holds(self, corpus: SentenceArrays, heads: Small) -> NDArray[np.bool_]:
        """Whether the arc to each column from its head in ``heads[columns]`` is among these, ``[columns]``."""
        found = np.zeros(len(heads), dtype=bool)
        columns = self._columns(corpus)
        found[columns[heads[columns] == self.heads]] = True
        return found

    def _columns(self, corpus: SentenceArrays) -> Integers:
        columns: Integers = np.repeat(corpus.start[:-1] + 1, np.diff(self.start)) + self.mods
        return columns


@dataclass(frozen=True, eq=False)
class Pruner:
    """What cuts arcs: the ``longest`` lengths ``[coarse tags, coarse tags, 2]``, and a first-order model or none."""

    longest: Small
    options: Pruning | None
    weights: Floats | None = None  # [size]

    def candidates(self, corpus: SentenceArrays, given: Small | None = None) -> Arcs:
        """Arcs within the longest lengths; ``given`` heads ``[columns]`` are -1 where none is."""
        from loopwise.apps.parser.features.candidates import list_candidates

        heads = np.full(len(corpus.heads), -1, np.int32) if given is None else given
        return Arcs(*list_candidates(corpus.tokens, corpus.start, np.arange(len(corpus)), self.longest, heads))

    def arcs(
        self,
        corpus: SentenceArrays,
        structure: ParserStructure,
        tags: int,
        given: Small | None = None,
        threads: int = 1,
    ) -> Arcs:
        """Arcs that are left of each sentence; none of a sentence whose given heads allow no tree."""
        if self.weights is None or self.options is None:
            return self.candidates(corpus, given)
        heads = np.full(len(corpus.heads), -1, np.int32) if given is None else given

        def prune(chosen: Integers) -> list[tuple[Integers, Small, Small]]:
            return [self._prune(corpus, piece, heads, structure, tags) for piece in pieces_of(corpus, chosen)]

        return joined([piece for pieces in in_chunks(corpus, threads, prune) for piece in pieces])

    def _prune(
        self, corpus: SentenceArrays, chosen: Integers, given: Small, structure: ParserStructure, tags: int
    ) -> tuple[Integers, Small, Small]:
        """What the first-order model leaves of some sentences: arcs, each of them in some tree; none where there is no
        tree."""
        from loopwise.apps.parser.features.candidates import choose_arcs, list_candidates
        from loopwise.apps.parser.features.parts import score_arcs

        assert self.options is not None
        lengths = corpus.lengths[chosen]
        start, heads, mods = list_candidates(corpus.tokens, corpus.start, chosen, self.longest, given)
        unary = score_arcs(corpus.tokens, corpus.start, chosen, start, heads, mods, BASIC.flags, self.weights, tags)
        models = structure.models(lengths, start, heads, mods)
        beliefs = models.propagate(unary, NO_PAIRS).beliefs
        parse, possible = models.best(beliefs)
        keep = choose_arcs(
            start, heads, mods, beliefs, lengths, parse, possible, self.options.threshold, self.options.heads
        )
        start, heads, mods = kept_arcs(keep, start, heads, mods)
        rest = structure.models(lengths, start, heads, mods).propagate(np.zeros(len(heads)), NO_PAIRS)
        return kept_arcs(rest.log_beliefs > -np.inf, start, heads, mods)


def learn_pruner(corpus: SentenceArrays, vocabulary: ParserVocabulary, options: Pruning | None) -> Pruner:
    """The longest lengths of the training trees, the first-order model still to come."""
    size = RESERVED + len(vocabulary.coarse)
    longest = np.full((size, size, 2), UNBOUNDED, np.int32)
    if options is not None and options.lengths:
        from loopwise.apps.parser.features.candidates import learn_lengths

        # What was never seen with known tags is cut; unknown tags, numbered below those, cut nothing.
        longest[RESERVED:, RESERVED:] = 0
        longest[1, RESERVED:] = 0
        learn_lengths(corpus.tokens, corpus.start, corpus.heads, longest)
    return Pruner(longest, options)


def nearest_heads(corpus: SentenceArrays, structure: ParserStructure) -> Small:
    """Gold heads ``[columns]`` made trees of the kind that the parser can produce, with as many gold arcs as can be.

    A gold tree of the right kind is its own nearest; words without a head get some. O(n^3) for each other.
    """
    from loopwise.apps.parser.features.candidates import lifted_arcs, wrong_kind

    nearest = corpus.heads.copy()
    wrong = wrong_kind(corpus.start, corpus.heads, structure.projective, structure.single_root)
    chosen = np.flatnonzero(wrong | (corpus.known_words < corpus.lengths))
    for some in pieces_of(corpus, chosen):
        start, heads, mods, scores = lifted_arcs(corpus.start, some, corpus.heads)
        nearest[corpus.columns_of(some)] = structure.models(corpus.lengths[some], start, heads, mods).best(scores)[0]
    return nearest


def oracle(corpus: SentenceArrays, arcs: Arcs, structure: ParserStructure) -> dict[str, float]:
    """What pruning costs: the share of words whose gold arc is left, that of the best tree of what is left, the arcs.

    ``recall``, ``oracle`` (the accuracy of a parser that makes no mistakes of its own), ``arcs_per_word``.
    """
    found = arcs.holds(corpus, corpus.heads)
    columns = arcs._columns(corpus)
    scores = (corpus.heads[columns] == arcs.heads).astype(np.float64)
    parsed, _ = structure.models(corpus.lengths, arcs.start, arcs.heads, arcs.mods).best(scores)
    words = corpus.word_columns
    return {
        "recall": float(found[words].mean()),
        "oracle": float((parsed == corpus.heads[words]).mean()),
        "arcs_per_word": len(arcs.heads) / max(1, len(words)),
    }


def in_chunks(corpus: SentenceArrays, threads: int, function: Callable[[Integers], Any]) -> list[Any]:
    """``function`` of sentences in a row, a thread each; long sentences weigh more."""
    everything = np.arange(len(corpus))
    if threads == 1 or len(corpus) < 2:
        return [function(everything)]
    chunks = split_by_cost(everything, corpus.lengths.astype(np.float64) ** 2.5, threads)
    return in_threads(len(chunks), lambda place: function(chunks[place]))


def pieces_of(corpus: SentenceArrays, chosen: Integers) -> list[Integers]:
    """``chosen`` in runs of sentences that fit a cache, in order."""
    if len(chosen) < 2:
        return [chosen] if len(chosen) else []
    sizes = np.cumsum((corpus.lengths[chosen] + 1) ** 2)
    return np.split(chosen, np.flatnonzero(np.diff(sizes // AT_ONCE)) + 1)


def kept_arcs(keep: NDArray[np.bool_], start: Integers, heads: Small, mods: Small) -> tuple[Integers, Small, Small]:
    """Those to ``keep``."""
    places = np.flatnonzero(keep)
    if len(places) == len(keep):
        return start, heads, mods
    return np.searchsorted(places, start), heads[places], mods[places]


def interleaved(folds: list[Arcs]) -> Arcs:
    """Arcs of sentences k, k + F, k + 2F, ... from each of F folds, back in order."""
    count = sum(len(fold.start) - 1 for fold in folds)
    sizes = np.zeros(count, np.int64)
    for place, fold in enumerate(folds):
        sizes[place :: len(folds)] = np.diff(fold.start)
    start = starts_of(sizes)
    heads, mods = np.empty(start[-1], np.int32), np.empty(start[-1], np.int32)
    for place, fold in enumerate(folds):
        mine = np.arange(place, count, len(folds))
        where = np.arange(len(fold.heads)) + np.repeat(start[mine] - fold.start[:-1], sizes[mine])
        heads[where], mods[where] = fold.heads, fold.mods
    return Arcs(start, heads, mods)


def joined(pieces: list[tuple[Integers, Small, Small]]) -> Arcs:
    """Arcs of sentences in a row from those of chunks."""
    if len(pieces) < 2:
        return Arcs(*(pieces[0] if pieces else NO_ARCS))
    counts = np.concatenate([np.diff(start) for start, _, _ in pieces])
    start = starts_of(counts)
    return Arcs(start, np.concatenate([h for _, h, _ in pieces]), np.concatenate([m for _, _, m in pieces]))
