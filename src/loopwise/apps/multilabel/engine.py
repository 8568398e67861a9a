"""An engine of walks for label sets: a step costs O(labels), whatever the number of features.

In: documents of :meth:`Problem.documents`, a proposal, a metric. Out: a session of :mod:`loopwise.walk`. Stage: use. It
takes the same steps as the engines that know any graph, up to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.apps.multilabel.problem import first_row
from loopwise.apps.multilabel.weights import Floats, Integers, pair_numbers
from loopwise.kernels import walk_codes as codes
from loopwise.loss.labels import Correct
from loopwise.loss.metric import Accuracy, HammingError
from loopwise.walk.compiled_session import kernel_rule
from loopwise.walk.corpus import joined, starts_of
from loopwise.walk.engines import Engine, Fastest
from loopwise.walk.model import Model
from loopwise.walk.proposal import Proposal
from loopwise.walk.rules import Rule
from loopwise.walk.sessions import Found, Searching, Session, Visiting
from loopwise.walk.steps import AdaGrad
from loopwise.walk.updates import Tally, Weights
from loopwise.walk.world import Start

_STARTS = {Start.TRUTH: codes.TRUTH, Start.RANDOM: codes.RANDOM}


@dataclass(frozen=True)
class LabelSets(Engine):
    """Compiled walks over label sets, for signals that count right labels; other metrics go to :class:`Fastest`.

    Steps with a rate of their own for each weight (:class:`~loopwise.walk.AdaGrad`) do not go along the input, which is
    what makes this engine fast: give them :class:`Fastest`.
    """

    def open(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> Session:
        code = proposal.compiled_code()
        known = metric is None or isinstance(metric, Accuracy | HammingError | Correct)
        if not known or not isinstance(code, tuple):
            return Fastest().open(model, documents, proposal, metric)
        return _LabelSession(model, documents, proposal, metric, code)


class _LabelSession(Session):
    """Walks over label sets."""

    def __init__(
        self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any, code: tuple[int, bool]
    ) -> None:
        from loopwise.kernels.multilabel import LabelMemory, LabelRows

        gold = np.ascontiguousarray(np.stack([document.truth for document in documents]), dtype=np.int64)
        labels = gold.shape[1]
        inputs = [first_row(document) for document in documents]
        features = (model.size - 2 * labels * (labels - 1)) // (2 * labels)
        scored = np.maximum((gold >= 0).sum(axis=1), 1).astype(np.float64)
        self._model, self._documents, self._proposal = model, documents, proposal
        self._rows = LabelRows(
            start=starts_of([len(row.index) for row in inputs]),
            index=joined([row.index for row in inputs], np.int32),
            value=joined([row.value for row in inputs], np.float64),
            gold=gold,
            weight=np.ones(len(gold)) if isinstance(metric, Correct) else scored,
            pair=2 * labels * features + 4 * pair_numbers(labels),
            features=features,
            proposal=int(code[0]),
            scan=bool(code[1]),
        )
        self._memory = LabelMemory(
            states=np.zeros_like(gold),
            single=np.zeros((labels, 2)),
            shift=np.zeros(labels),
            shift_sum=np.zeros(labels),
            scores=np.zeros(2),
            generator=np.zeros(4, dtype=np.uint64),
            move=np.zeros(3, dtype=np.int64),
            input=np.zeros(2),
        )
        self._known = np.zeros(len(gold), dtype=np.bool_)

    def learn(self, rule: Rule, weights: Weights, visits: Sequence[Visiting], seed: int) -> tuple[Weights, Tally]:
        from loopwise.kernels.multilabel import walk_label_sets
        from loopwise.kernels.walk_rules import Learning

        if isinstance(rule.step, AdaGrad):
            raise ValueError("the engine LabelSets has no AdaGrad; use engine=lw.walk.Fastest()")
        learned = weights.copy()
        clock = np.array([weights.time, weights.since], dtype=np.int64)
        tally = np.zeros((len(visits), codes.TALLY), dtype=np.int64)
        length = sum(visit.steps for visit in visits) if self.trace is not None else 0
        trace = np.full((length, 4), -1, dtype=np.int64)
        walk_label_sets(
            self._rows,
            self._memory,
            kernel_rule(rule),
            Learning(learned.values, learned.sums, learned.squares, clock),
            _column([visit.document for visit in visits]),
            _column([visit.steps for visit in visits]),
            _column([self._start(visit) for visit in visits]),
            _column([visit.stream for visit in visits]),
            seed,
            tally,
            trace,
        )
        self._known[[visit.document for visit in visits]] = True
        if self.trace is not None:
            for item, old, new, made in trace.tolist():
                self.trace.append((item, old, new, bool(made)) if item >= 0 else (-1, -1, -1, False))
        learned.time = int(clock[0])
        return learned, Tally(*tally.sum(axis=0).tolist())

    def search(self, weights: Floats, visits: Sequence[Visiting], how: Searching, seed: int) -> list[Found]:
        session = Fastest().open(self._model, self._documents, self._proposal, None)
        session.set_states(self.states())
        found = session.search(weights, visits, how, seed)
        self.set_states(session.states())
        return found

    def states(self) -> list[list[int] | None]:
        known = zip(self._memory.states.tolist(), self._known.tolist(), strict=True)
        return [state if seen else None for state, seen in known]

    def set_states(self, states: Sequence[list[int] | None]) -> None:
        for place, labels in enumerate(states):
            self._known[place] = labels is not None
            if labels is not None:
                self._memory.states[place] = labels

    def _start(self, visit: Visiting) -> int:
        if visit.start is None:
            return codes.KEEP if self._known[visit.document] else codes.TRUTH
        return _STARTS[visit.start]


def _column(numbers: Sequence[int]) -> Integers:
    return np.array(numbers, dtype=np.int64)
