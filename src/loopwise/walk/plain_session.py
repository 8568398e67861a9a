"""Walks over documents in Python classes.

In: a model, documents, a proposal, a metric. Out: a :class:`~loopwise.walk.sessions.WalkSession`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwise.walk.learning.rules import LearningRule
from loopwise.walk.learning.updates import PlainLearning, Tally, WalkWeights
from loopwise.walk.models.model import Model, dot
from loopwise.walk.plain import PlainSearch, Visit
from loopwise.walk.proposal import Proposal
from loopwise.walk.randomness import Stream, document_number
from loopwise.walk.sessions import Floats, Integers, Sampling, Searching, SearchResult, Visiting, WalkSession
from loopwise.walk.world import Move, Start, World


class PlainSession(WalkSession):
    """Walks in Python classes."""

    def __init__(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> None:
        self.model, self.documents, self.proposal, self.metric = model, list(documents), proposal, metric
        self._states: list[list[int] | None] = [None] * len(self.documents)

    def learn(
        self, rule: LearningRule, weights: WalkWeights, visits: Sequence[Visiting], seed: int
    ) -> tuple[WalkWeights, Tally]:
        learning = PlainLearning.of(rule, weights)
        walk = Visit(self.model, self.proposal, self.metric, rule, learning)
        for visit in visits:
            random = Stream(seed, visit.stream)
            document = self.documents[visit.document]
            world = self._world(visit, random)
            try:
                at_truth = visit.start is Start.TRUTH
                walk.run(document, world, visit.steps, random, at_truth=at_truth, trace=self._tell)
            except ValueError as problem:
                raise ValueError(f"{problem} (document {document_number(visit.stream)})") from None
            self._states[visit.document] = world.labels()
        return learning.result(), Tally(*learning.tally)

    def search(self, weights: Floats, visits: Sequence[Visiting], how: Searching, seed: int) -> list[SearchResult]:
        values: list[float] = weights.tolist()
        search = PlainSearch(self.model, self.proposal, values, how.cooling, how.rescore)
        found = []
        for visit in visits:
            random, document = Stream(seed, visit.stream), self.documents[visit.document]
            counter = _Counter(self.model, document, how.sampling) if how.sampling is not None else None
            best, accepted = search.run(self._world(visit, random), visit.steps, random, counter)
            score = dot(self.model.features(best), values)
            self._states[visit.document] = best.labels()
            counts = np.zeros((2, 0), dtype=np.int64) if counter is None else counter.counts
            found.append(SearchResult(best.labels(), score, accepted, counts))
        return found

    def states(self) -> list[list[int] | None]:
        return self._states

    def set_states(self, states: Sequence[list[int] | None]) -> None:
        self._states = list(states)

    def _world(self, visit: Visiting, random: Stream) -> World:
        kept = self._states[visit.document]
        if visit.start is None and kept is not None:
            return self.model.world_of(self.documents[visit.document], kept)
        return self.model.world(self.documents[visit.document], visit.start or Start.TRUTH, random)

    def _tell(self, move: Move | None, accepted: bool) -> None:
        if self.trace is not None:
            item, old, new = (-1, -1, -1) if move is None else move.changes[0]
            self.trace.append((item, old, new, accepted))


class _Counter:
    """Counts the events of the states that are due."""

    def __init__(self, model: Model, document: Any, sampling: Sampling) -> None:
        self.model, self.document, self.sampling = model, document, sampling
        self.counts: Integers = np.zeros((2, model.cells(document)), dtype=np.int64)

    def __call__(self, step: int, world: World) -> None:
        number = self.sampling.number(step)
        if number >= 0:
            half = 0 if number < self.sampling.samples // 2 else 1
            self.counts[half, list(self.model.events(self.document, world.labels()))] += 1
