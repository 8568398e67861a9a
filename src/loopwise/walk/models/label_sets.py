"""Walks over label sets: documents, a model, and an engine whose steps cost O(labels), whatever the features.

In: a :class:`~loopwise.learn.label_sets.problem.LabelProblem`, a proposal, a metric. Out: documents and a model for the
learners of walks; a session. Stage: walking. The engine takes the same steps as those that know any graph, up to the
rounding of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.offsets import starts_of
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import Floats, pair_count, pair_numbers
from loopwise.loss.labels import Correct
from loopwise.loss.metric import Accuracy, HammingError
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparseGroup, SparsePotentials
from loopwise.walk.compiled_session import LearningRecord, kernel_rule, kernel_visits
from loopwise.walk.corpus import joined
from loopwise.walk.engines import Fastest, WalkEngine
from loopwise.walk.kernels import codes as codes
from loopwise.walk.learning.rules import LearningRule
from loopwise.walk.learning.steps import AdaGrad
from loopwise.walk.learning.updates import Tally, WalkWeights
from loopwise.walk.models.graph_model import GraphDocument, GraphModel
from loopwise.walk.models.model import Model
from loopwise.walk.proposal import Proposal
from loopwise.walk.sessions import Searching, SearchResult, Visiting, WalkSession

PAIR = "pair"


def label_model(problem: LabelProblem) -> GraphModel:
    """The model of a walk; its weights lie as :class:`~loopwise.learn.label_sets.weights.LabelWeights` has them."""
    groups = {_name(label): SparseGroup((2,), problem.features) for label in range(problem.labels)}
    if problem.labels > 1:
        groups[PAIR] = SparseGroup((2, 2), pair_count(problem.labels))
    return GraphModel(SparsePotentials(groups))


def label_documents(problem: LabelProblem) -> list[GraphDocument]:
    """One document an example. Its input is one row, which all labels share."""
    graph = walk_graph(problem.labels)
    pairs = Features.of_table(np.arange(pair_count(problem.labels))[:, None]) if problem.labels > 1 else None
    matrix = problem.rows
    index, start = matrix.indices.astype(np.int32), matrix.indptr.tolist()
    documents = []
    for example in range(len(problem)):
        first, end = start[example], start[example + 1]
        row = Features(
            np.array([0, end - first], dtype=np.int64), index[first:end], matrix.data[first:end].astype(np.float64)
        )
        features = {_name(label): row for label in range(problem.labels)}
        if pairs is not None:
            features[PAIR] = pairs
        documents.append(GraphDocument(graph, problem.gold[example], features))
    return documents


def walk_graph(labels: int) -> FactorGraph:
    """A group for each label, so that all read the one row of an input, and a group of all pairs."""
    scopes = {_name(label): np.array([[label]]) for label in range(labels)}
    if labels > 1:
        scopes[PAIR] = np.stack(np.triu_indices(labels, 1), axis=1)
    return FactorGraph(np.full(labels, 2), scopes)


def first_row(document: GraphDocument) -> Features:
    """The input of a document that :func:`label_documents` made."""
    return document.features[_name(0)]


def _name(label: int) -> str:
    return f"label {label}"


@dataclass(frozen=True)
class LabelSets(WalkEngine):
    """Compiled walks over label sets, for signals that count right labels; other metrics go to :class:`Fastest`.

    Steps with a rate of their own for each weight (:class:`~loopwise.walk.AdaGrad`) do not go along the input, which is
    what makes this engine fast: give them :class:`Fastest`.
    """

    def open(self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any) -> WalkSession:
        code = proposal.compiled_code()
        known = metric is None or isinstance(metric, Accuracy | HammingError | Correct)
        if not known or not isinstance(code, tuple):
            return Fastest().open(model, documents, proposal, metric)
        return _LabelSession(model, documents, proposal, metric, code)


class _LabelSession(WalkSession):
    """Walks over label sets."""

    def __init__(
        self, model: Model, documents: Sequence[Any], proposal: Proposal, metric: Any, code: tuple[int, bool]
    ) -> None:
        from loopwise.walk.kernels.label_sets import LabelMemory, LabelRows

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

    def learn(
        self, rule: LearningRule, weights: WalkWeights, visits: Sequence[Visiting], seed: int
    ) -> tuple[WalkWeights, Tally]:
        from loopwise.walk.kernels.label_sets import walk_label_sets

        if isinstance(rule.step, AdaGrad):
            raise ValueError("the engine LabelSets has no AdaGrad; use engine=lw.walk.Fastest()")
        record = LearningRecord(weights, visits, self.trace)
        walk_label_sets(
            self._rows,
            self._memory,
            kernel_rule(rule),
            record.learning,
            kernel_visits(visits, self._known, seed),
            record.tally,
            record.steps,
        )
        self._known[[visit.document for visit in visits]] = True
        return record.result()

    def search(self, weights: Floats, visits: Sequence[Visiting], how: Searching, seed: int) -> list[SearchResult]:
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
