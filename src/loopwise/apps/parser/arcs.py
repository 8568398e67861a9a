"""Which arcs a model sees: length bounds, a first-order model, and how much of the gold trees is left.

In: a corpus. Out: :class:`Arcs`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.parser.options import Pruning, Structure, Templates
from loopwise.apps.parser.table import Floats
from loopwise.apps.parser.vocabulary import RESERVED, Corpus, Integers, Vocabulary
from loopwise.kernels.threads import in_threads

Small = NDArray[np.int32]
UNBOUNDED = np.iinfo(np.int32).max
CHANGED_AT_ONCE = 256  # sentences whose n^2 arcs are held at a time
BASIC = Templates(full=False, coarse=False, rich=False)  # words and tags of head and modifier: what pruning looks at


@dataclass(frozen=True, eq=False)
class Arcs:
    """Sentence s may have the arcs ``start[s]`` to ``start[s + 1]``, sorted by modifier, then head."""

    start: Integers
    heads: Small
    mods: Small

    def with_heads(self, corpus: Corpus, heads: Small) -> Arcs:
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

    def holds(self, corpus: Corpus, heads: Small) -> NDArray[np.bool_]:
        """Whether the arc to each column from its head in ``heads[columns]`` is among these, ``[columns]``."""
        found = np.zeros(len(heads), dtype=bool)
        columns = self._columns(corpus)
        found[columns[heads[columns] == self.heads]] = True
        return found

    def _columns(self, corpus: Corpus) -> Integers:
        columns: Integers = np.repeat(corpus.start[:-1] + 1, np.diff(self.start)) + self.mods
        return columns


@dataclass(frozen=True, eq=False)
class Pruner:
    """What cuts arcs: the ``longest`` lengths ``[coarse tags, coarse tags, 2]``, and a first-order model or none."""

    longest: Small
    options: Pruning | None
    weights: Floats | None = None  # [size]

    def candidates(self, corpus: Corpus, given: Small | None = None) -> Arcs:
        """Arcs within the longest lengths; ``given`` heads ``[columns]`` are -1 where none is."""
        from loopwise.kernels.parser_arcs import list_candidates

        heads = np.full(len(corpus.heads), -1, np.int32) if given is None else given
        return Arcs(*list_candidates(corpus.tokens, corpus.start, np.arange(len(corpus)), self.longest, heads))

    def arcs(
        self, corpus: Corpus, structure: Structure, tags: int, given: Small | None = None, threads: int = 1
    ) -> Arcs:
        """Arcs that are left of each sentence; none of a sentence whose given heads allow no tree."""
        if self.weights is None or self.options is None:
            return self.candidates(corpus, given)
        from loopwise.kernels.parser_arcs import prune_chunk

        heads = np.full(len(corpus.heads), -1, np.int32) if given is None else given
        options, weights = self.options, self.weights

        def prune(chosen: Integers) -> Any:
            return prune_chunk(
                corpus.tokens, corpus.start, chosen, self.longest, heads, weights, BASIC.flags, tags,
                options.threshold, options.heads, structure.tree_bits,
            )  # fmt: skip

        return joined(in_chunks(corpus, threads, prune))


def learn_pruner(corpus: Corpus, vocabulary: Vocabulary, options: Pruning | None) -> Pruner:
    """The longest lengths of the training trees, the first-order model still to come."""
    size = RESERVED + len(vocabulary.coarse)
    longest = np.full((size, size, 2), UNBOUNDED, np.int32)
    if options is not None and options.lengths:
        from loopwise.kernels.parser_arcs import learn_lengths

        # What was never seen with known tags is cut; unknown tags, numbered below those, cut nothing.
        longest[RESERVED:, RESERVED:] = 0
        longest[1, RESERVED:] = 0
        learn_lengths(corpus.tokens, corpus.start, corpus.heads, longest)
    return Pruner(longest, options)


def nearest_heads(corpus: Corpus, structure: Structure) -> Small:
    """Gold heads ``[columns]`` made trees of the kind that the parser can produce, with as many gold arcs as can be.

    A gold tree of the right kind is its own nearest. O(n^3) for each other.
    """
    from loopwise.kernels.parser_arcs import lifted_arcs, wrong_kind
    from loopwise.kernels.parser_parse import best_trees

    nearest = corpus.heads.astype(np.int64)
    chosen = np.flatnonzero(wrong_kind(corpus.start, corpus.heads, structure.projective, structure.single_root))
    for begin in range(0, len(chosen), CHANGED_AT_ONCE):
        some = chosen[begin : begin + CHANGED_AT_ONCE]
        start, heads, mods, scores = lifted_arcs(corpus.start, some, corpus.heads)
        failed = np.zeros(len(some), np.bool_)
        best_trees(corpus.start, some, start, heads, mods, scores, structure.tree_bits, nearest, failed)
    return nearest.astype(np.int32)


def oracle(corpus: Corpus, arcs: Arcs, structure: Structure) -> dict[str, float]:
    """What pruning costs: the share of words whose gold arc is left, that of the best tree of what is left, the arcs.

    ``recall``, ``oracle`` (the accuracy of a parser that makes no mistakes of its own), ``arcs_per_word``.
    """
    from loopwise.kernels.parser_parse import best_trees

    found = arcs.holds(corpus, corpus.heads)
    columns = arcs._columns(corpus)
    scores = (corpus.heads[columns] == arcs.heads).astype(np.float64)
    parsed, failed = np.full(len(corpus.heads), -1, np.int64), np.zeros(len(corpus), np.bool_)
    chosen = np.arange(len(corpus))
    best_trees(corpus.start, chosen, arcs.start, arcs.heads, arcs.mods, scores, structure.tree_bits, parsed, failed)
    words = corpus.word_columns
    return {
        "recall": float(found[words].mean()),
        "oracle": float((parsed[words] == corpus.heads[words]).mean()),
        "arcs_per_word": len(arcs.heads) / max(1, len(words)),
    }


def in_chunks(corpus: Corpus, threads: int, function: Callable[[Integers], Any]) -> list[Any]:
    """``function`` of sentences in a row, a thread each; long sentences weigh more."""
    chunks = split_by_cost(np.arange(len(corpus)), corpus.lengths.astype(np.float64) ** 2.5, threads)
    return in_threads(len(chunks), lambda place: function(chunks[place]))


def split_by_cost(chosen: Integers, costs: NDArray[np.float64], parts: int) -> list[Integers]:
    """``chosen`` in at most ``parts`` runs of about equal cost, in order."""
    if parts <= 1 or len(chosen) < 2:
        return [chosen]
    total = np.cumsum(costs)
    cuts = np.unique(np.searchsorted(total, total[-1] * np.arange(1, parts) / parts, side="right"))
    return [piece for piece in np.split(chosen, cuts) if len(piece)]


def interleaved(folds: list[Arcs]) -> Arcs:
    """Arcs of sentences k, k + F, k + 2F, ... from each of F folds, back in order."""
    count = sum(len(fold.start) - 1 for fold in folds)
    sizes = np.zeros(count, np.int64)
    for place, fold in enumerate(folds):
        sizes[place :: len(folds)] = np.diff(fold.start)
    start = np.concatenate([[0], np.cumsum(sizes)])
    heads, mods = np.empty(start[-1], np.int32), np.empty(start[-1], np.int32)
    for place, fold in enumerate(folds):
        mine = np.arange(place, count, len(folds))
        where = np.arange(len(fold.heads)) + np.repeat(start[mine] - fold.start[:-1], sizes[mine])
        heads[where], mods[where] = fold.heads, fold.mods
    return Arcs(start, heads, mods)


def joined(pieces: list[tuple[Integers, Small, Small]]) -> Arcs:
    """Arcs of sentences in a row from those of chunks."""
    counts = np.concatenate([np.diff(start) for start, _, _ in pieces])
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Arcs(start, np.concatenate([h for _, h, _ in pieces]), np.concatenate([m for _, _, m in pieces]))
