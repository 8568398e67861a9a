"""Walks over documents in compiled loops.

In: a corpus, the documents of a model as flat arrays. Out: a :class:`~loopwise.walk.sessions.Session`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwise.walk.corpus import Corpus, starts_of
from loopwise.walk.kernels import codes as codes
from loopwise.walk.learning.rules import Accept, Rule
from loopwise.walk.learning.updates import Tally, Weights
from loopwise.walk.models.model import Model
from loopwise.walk.randomness import document_number
from loopwise.walk.sessions import Floats, Found, Integers, Sampling, Searching, Session, Visiting
from loopwise.walk.world import Start


class CompiledSession(Session):
    """Walks in compiled loops over flat arrays."""

    def __init__(self, model: Model, corpus: Corpus) -> None:
        from loopwise.walk.kernels.delta import empty_delta

        self.model, self.corpus = model, corpus
        self._known = np.zeros(corpus.documents, dtype=np.bool_)
        self._delta, self._truth, self._gold = empty_delta(model.size), empty_delta(0), empty_delta(0)

    def learn(self, rule: Rule, weights: Weights, visits: Sequence[Visiting], seed: int) -> tuple[Weights, Tally]:
        from loopwise.walk.kernels.loop import run_walk
        from loopwise.walk.kernels.rules import Learning

        if rule.reset and hasattr(self.corpus.arrays, "share"):
            raise ValueError(
                "compiled walks that split and merge cannot go back to the truth step by step; use a learner without "
                "resets, or engine=lw.walk.Plain()"
            )
        learned = weights.copy()
        clock = np.array([weights.time, weights.since], dtype=np.int64)
        tally = np.zeros((len(visits), codes.TALLY), dtype=np.int64)
        steps = sum(visit.steps for visit in visits) if self.trace is not None else 0
        trace = np.full((steps, 4), -1, dtype=np.int64)
        failed = run_walk(
            self.corpus.arrays,
            self.corpus.world,
            kernel_rule(rule),
            Learning(learned.values, learned.sums, learned.squares, clock),
            self._visits(visits, seed),
            self._work(rule),
            tally,
            trace,
        )
        if failed >= 0:
            number = document_number(visits[failed].stream)
            raise ValueError(f"the metric gave NaN in document {number}; it must give a number for every state")
        for visit in visits:
            self._known[visit.document] = True
        if self.trace is not None:
            for item, old, new, made in trace.tolist():
                self.trace.append((item, old, new, bool(made)) if item >= 0 else (-1, -1, -1, False))
        learned.time = int(clock[0])
        return learned, Tally(*tally.sum(axis=0).tolist())

    def search(self, weights: Floats, visits: Sequence[Visiting], how: Searching, seed: int) -> list[Found]:
        from loopwise.walk.kernels.search import run_search

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
            self._visits(visits, seed),
            _kernel_search(how),
            self._work(None),
            best,
            starts,
            scores,
            counts,
            tally,
        )
        for visit in visits:
            self._known[visit.document] = True
        accepted = tally[:, codes.ACCEPTED] / np.maximum(tally[:, codes.STEPS], 1)
        return [
            Found(
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

    def _visits(self, visits: Sequence[Visiting], seed: int) -> Any:
        from loopwise.walk.kernels.models import Visits

        def column(numbers: Sequence[int]) -> Integers:
            return np.array(numbers, dtype=np.int64)

        return Visits(
            column([visit.document for visit in visits]),
            column([visit.steps for visit in visits]),
            column([self._start(visit) for visit in visits]),
            column([visit.stream for visit in visits]),
            seed,
        )

    def _start(self, visit: Visiting) -> int:
        if visit.start is None:
            return codes.KEEP if self._known[visit.document] else codes.TRUTH
        return {Start.TRUTH: codes.TRUTH, Start.RANDOM: codes.RANDOM, Start.SINGLETONS: codes.SINGLETONS}[visit.start]

    def _work(self, rule: Rule | None) -> Any:
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


def _kernel_search(how: Searching) -> Any:
    from loopwise.walk.kernels.search import Search

    sampling = how.sampling or Sampling(0, 0, 0)
    first, last = float(how.cooling.first), float(how.cooling.last)
    return Search(first, last, how.rescore, sampling.burn_in, sampling.thinning, sampling.samples)


def kernel_rule(rule: Rule) -> Any:
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
