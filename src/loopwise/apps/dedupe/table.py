"""A table ready to be resolved: its comparisons, its candidate pairs, and their scores by a model.

In: records of one table or two. Out: :class:`CandidateTable`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.blocking import Blocker, Coverage, Predicate, chunks, pairs_of
from loopwise.apps.dedupe.compare import Comparer, Rivals, Similarities
from loopwise.apps.dedupe.kinds import Kind
from loopwise.apps.dedupe.pair_model import PairModel, SimilarityLevels, estimate_levels
from loopwise.apps.dedupe.records import Records
from loopwise.decode.scored_pairs import DOUBT, CandidateParts, Graph, closed, parts_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

CHUNK = 100_000  # pairs compared at a time
LEAST_PAIRS = 60_000  # that any table may have
SAMPLE = 200_000  # candidate pairs that EM looks at
RANDOM = 20_000  # pairs drawn at random, for EM


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """``one``, ``other``: the candidate pairs. ``side``: the table of each record, -1 where there is only one."""

    records: Records
    comparer: Comparer
    blocker: Blocker
    predicates: tuple[Predicate, ...]
    one: Integers
    other: Integers

    @staticmethod
    def of(
        records: Records,
        kinds: Mapping[str, Kind],
        side: Integers | None,
        per_record: int,
        matches: Integers,
        predicates: Sequence[Predicate] | None = None,
    ) -> CandidateTable:
        """Chooses predicates by the labelled ``matches``, or takes those given, and lists their pairs."""
        comparer = Comparer(records, kinds)
        blocker = Blocker(comparer, side)
        most = max(per_record * len(records), LEAST_PAIRS)
        chosen, codes = blocker.choose(matches, most, predicates)
        one, other = pairs_of(codes, len(records))
        return CandidateTable(records, comparer, blocker, chosen, one, other)

    @property
    def side(self) -> Integers:
        return self.blocker.side

    @property
    def linking(self) -> bool:
        return bool((self.side >= 0).any())

    def coverage(self, matches: Integers) -> Coverage:
        """What the predicates keep of labelled matches."""
        return self.blocker.coverage(self.predicates, self.one * len(self.records) + self.other, matches)

    def levels(self, seed: int) -> SimilarityLevels:
        """The model of EM, from a sample of the candidates."""
        random = np.random.default_rng(seed)
        chosen = np.arange(len(self.one))
        if len(chosen) > SAMPLE:
            chosen = np.sort(random.choice(len(chosen), SAMPLE, replace=False))
        first, second = random.integers(0, len(self.records), (2, RANDOM))
        apart = (first != second) & ((self.side[first] < 0) | (self.side[first] != self.side[second]))
        return estimate_levels(
            self._summary(self.one[chosen], self.other[chosen]), self._summary(first[apart], second[apart])
        )

    def watch_rivals(self, levels: SimilarityLevels) -> None:
        """From now on pairs are also compared with the best other candidates of their records."""
        self.comparer.rivals = None
        scores = np.concatenate(
            [np.zeros(0)]
            + [levels.score(self._summary(self.one[part], self.other[part])) for part in chunks(len(self.one), CHUNK)]
        )
        self.comparer.rivals = Rivals.of(len(self.records), self.one, self.other, scores, levels.score)

    def _summary(self, one: Integers, other: Integers) -> Similarities:
        return self.comparer.summary(self.comparer.compute(one, other))

    def agreement(self, one: Integers, other: Integers) -> Similarities:
        """How alike the columns of pairs are, ``[pairs, columns]``."""
        parts = [self._summary(one[part], other[part]) for part in chunks(len(one), CHUNK)]
        return np.concatenate([np.zeros((0, len(self.comparer.columns)), np.float32), *parts])

    def score(self, model: PairModel, one: Integers, other: Integers) -> Floats:
        """Logits of pairs, a chunk at a time."""
        parts = [
            model.logit(self.comparer, self.comparer.compute(one[part], other[part]))
            for part in chunks(len(one), CHUNK)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def graph(self, model: PairModel, among: NDArray[np.bool_] | None = None) -> Graph:
        """Candidate pairs with their logits; ``among``: only those of these records. Hopeless pairs are left out."""
        one, other = self.one, self.other
        if among is not None:
            chosen = among[one] & among[other]
            one, other = one[chosen], other[chosen]
        return self.kept(one, other, self.score(model, one, other))

    def kept(self, one: Integers, other: Integers, logit: Floats) -> Graph:
        """Pairs that are not hopeless."""
        kept = logit >= 2 * DOUBT
        return Graph(len(self.records), one[kept], other[kept], logit[kept])

    def parts(self, model: PairModel, graph: Graph) -> CandidateParts:
        """Components of the graph, closed as far as that is cheap."""
        return parts_of(closed(graph, lambda one, other: self.score(model, one, other), self.side))
