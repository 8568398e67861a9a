"""Walks over documents in compiled loops.

In: a corpus, the documents of a model as flat arrays. Out: a :class:`~loopwise.walk.sessions.WalkSession`. Stage:
walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.offsets import starts_of
from loopwise.walk.corpus import Corpus
from loopwise.walk.kernels import codes as codes
from loopwise.walk.learning.rules import Accept, LearningRule
from loopwise.walk.learning.updates import Tally, WalkWeights
from loopwise.walk.models.model import Model
from loopwise.walk.randomness import document_number
from loopwise.walk.sessions import Floats, Integers, Sampling, Searching, SearchResult, Trace, Visiting, WalkSession
from loopwise.walk.world import Start


class CompiledSession(WalkSession):
    """Walks in compiled loops over flat arrays."""

    def __init__(self, model: Model, corpus: Corpus) -> None:
        from loopwise.walk.kernels.delta import empty_delta

        self.model, self.corpus = model, corpus
        self._known = np.zeros(corpus.documents, dtype=np.bool_)
        self._delta, self._truth, self._gold = empty_delta(model.size), empty_delta(0), empty_delta(0)

    def learn(
        self, rule: LearningRule, weights: WalkWeights, visits: Sequence[Visiting], seed: int
    ) -> tuple[WalkWeights, Tally]:
        from loopwise.walk.kernels.loop import run_walk

        if rule.reset and hasattr(self.corpus.arrays, "share"):
            raise ValueError(
                "compiled walks that split and merge cannot go back to the truth step by step; use a learner without "
                "resets, or engine=lw.walk.Plain()"
            )
        record = LearningRecord(weights, visits, self.trace)
        failed = run_walk(
            self.corpus.arrays,
            self.corpus.world,
            kernel_rule(rule),
            record.learning,
            kernel_visits(visits, self._known, seed),
            self._work(rule),
            record.tally,
            record.steps,
        )
        if failed >= 0:
            number = document_number(visits[failed].stream)
            raise ValueError(f"the metric gave NaN in document {number}; it must give a number for every state")
        for visit in visits:
            self._known[visit.document] = True
        return record.result()

    def search(self, weights: Floats, visits: Sequence[Visiting], how: Searching, seed: int) -> list[SearchResult]:
        from loopwise.walk.kernels.search import SearchArrays, run_search

        lengths = np.diff(self.corpus.starts)
        starts = starts_of([int(lengths[visit.document]) for visit in visits])
        cells = [self.corpus.cells(visit.document) if how.sampling is not None else 0 for visit in visits]
        best, scores = np.zeros(int(starts[-1]), dtype=np.int64), np.zeros(len(visits))
        counts = np.zeros((len(visits), 2, max(cells, default=0)), dtype=np.int64)
        tally = np.zeros((len(visits), codes.TALLY), dtype=np.int64)
        run_search(
            self.corpus.arrays,
            self.corpus.world,
            np.array(weights, dtype=np.float64),
            kernel_visits(visits, self._known, seed),
            _kernel_search(how),
            self._work(None),
            SearchArrays(best, starts, scores, counts),
            tally,
        )
        for visit in visits:
            self._known[visit.document] = True
        accepted = tally[:, codes.ACCEPTED] / np.maximum(tally[:, codes.STEPS], 1)
        return [
            SearchResult(
                best[starts[place] : starts[place + 1]].tolist(),
                float(scores[place]),
                float(accepted[place]),
                counts[place, :, : cells[place]],
            )
            for place in range(len(visits))
        ]

    def states(self) -> list[list[int] | None]:
        return [self.corpus.labels(place) if known else None for place, known in enumerate(self._known.tolist())]

    def set_states(self, states: Sequence[list[int] | None]) -> None:
        for place, labels in enumerate(states):
            self._known[place] = labels is not None
            if labels is not None:
                self.corpus.states[self.corpus.starts[place] : self.corpus.starts[place + 1]] = labels

    def _work(self, rule: LearningRule | None) -> Any:
        from loopwise.walk.kernels.delta import empty_delta
        from loopwise.walk.kernels.models import Work

        wanted = rule is not None and rule.towards.value != codes.NO_TRUTH
        if wanted and len(self._truth.slot) != self.model.size:
            self._truth, self._gold = empty_delta(self.model.size), empty_delta(self.model.size)
        return Work(
            self._delta,
            self._truth,
            self._gold,
            np.zeros(4, dtype=np.uint64),
            np.zeros(4, dtype=np.int64),
            np.zeros(3, dtype=np.int64),
            np.zeros((rule.every if rule is not None and rule.reset else 0, 4), dtype=np.int64),
            np.zeros(self.corpus.largest, dtype=np.int64),
        )


class LearningRecord:
    """What a compiled walk that learns writes to: a copy of the weights, its clock, its tally, and its steps where
    somebody follows them (``trace``, a list to be told)."""

    def __init__(self, weights: WalkWeights, visits: Sequence[Visiting], trace: Trace | None) -> None:
        self._learned, self._trace = weights.copy(), trace
        self._clock = np.array([weights.time, weights.since], dtype=np.int64)
        self.tally = np.zeros((len(visits), codes.TALLY), dtype=np.int64)
        length = sum(visit.steps for visit in visits) if trace is not None else 0
        self.steps = np.full((length, 4), -1, dtype=np.int64)

    @property
    def learning(self) -> Any:
        """Weights and clock as kernels take them."""
        from loopwise.walk.kernels.rules import Learning

        return Learning(self._learned.values, self._learned.sums, self._learned.squares, self._clock)

    def result(self) -> tuple[WalkWeights, Tally]:
        """Weights and tally after the walk; whoever follows is told."""
        if self._trace is not None:
            for item, old, new, made in self.steps.tolist():
                self._trace.append((item, old, new, bool(made)) if item >= 0 else (-1, -1, -1, False))
        self._learned.time = int(self._clock[0])
        return self._learned, Tally(*self.tally.sum(axis=0).tolist())


def kernel_visits(visits: Sequence[Visiting], known: NDArray[np.bool_], seed: int) -> codes.Visits:
    """Visits as arrays; ``known``: of which documents a state is."""

    def column(numbers: Sequence[int]) -> Integers:
        return np.array(numbers, dtype=np.int64)

    return codes.Visits(
        column([visit.document for visit in visits]),
        column([visit.steps for visit in visits]),
        column([start_code(visit, known) for visit in visits]),
        column([visit.stream for visit in visits]),
        seed,
    )


def start_code(visit: Visiting, known: NDArray[np.bool_]) -> int:
    """Where a visit begins, as kernels take it; ``known``: which documents were walked over before."""
    if visit.start is None:
        return codes.KEEP if known[visit.document] else codes.TRUTH
    return {Start.TRUTH: codes.TRUTH, Start.RANDOM: codes.RANDOM, Start.SINGLETONS: codes.SINGLETONS}[visit.start]


def _kernel_search(how: Searching) -> Any:
    from loopwise.walk.kernels.search import Search

    sampling = how.sampling or Sampling(0, 0, 0)
    first, last = float(how.cooling.first), float(how.cooling.last)
    return Search(first, last, how.rescore, sampling.burn_in, sampling.thinning, sampling.samples)


def kernel_rule(rule: LearningRule) -> Any:
    from loopwise.walk.kernels.rules import Rule as KernelRule

    rate, cap, floor = rule.step.numbers
    return KernelRule(
        step=rule.step.code,
        rate=float(rate),
        cap=float(cap),
        floor=float(floor),
        margin_scale=float(rule.margin.scale),
        margin_constant=float(rule.margin.constant),
        tolerance=float(rule.tolerance),
        temperature=float(rule.temperature),
        stale=rule.accept_with is Accept.STALE,
        atomic=rule.atomic,
        truth=rule.towards.value,
        truth_on_ties=rule.on_ties,
        every=rule.every,
        reset=rule.reset,
        rebuild=rule.rebuild,
    )
