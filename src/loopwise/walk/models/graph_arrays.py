"""Documents over factor graphs as flat arrays for compiled walks.

In: a graph model, documents, a proposal and a metric. Out: a :class:`~loopwise.walk.corpus.Corpus`. Stage: walking.
Graphs that are equal are stored once, however many documents have them; so are rows of features that the potentials
give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.offsets import starts_of
from loopwise.inference.by_variable import label_list
from loopwise.loss.entity import EntityF1Score
from loopwise.loss.labels import Correct, ValueF1, VariableF1
from loopwise.loss.metric import Accuracy, FBetaScore, HammingError
from loopwise.potentials.features import Features
from loopwise.walk.corpus import Corpus, joined, packed
from loopwise.walk.kernels import codes as codes
from loopwise.walk.models.graph_model import GraphDocument, GraphModel, GroupWeights
from loopwise.walk.proposal import Proposal

_NEAR = 1 << 15  # weights of a document that stay in a near cache, a quarter of a megabyte


def graph_corpus(
    model: GraphModel, documents: Sequence[GraphDocument], proposal: Proposal, metric: Any
) -> Corpus | None:
    """The corpus, or None where compiled walks do not know the proposal or the metric."""
    code = proposal.compiled_code()
    largest = max((int(document.graph.cardinalities.max(initial=1)) for document in documents), default=1)
    signal = _signal(metric, documents, largest)
    if not isinstance(code, tuple) or signal is None:
        return None
    from loopwise.walk.kernels.labels import LabelArrays, LabelWorld

    structures = _Structures(model)
    numbers = [structures.number(document.graph) for document in documents]
    rows = _FeatureRows(model, len(documents))
    for place, document in enumerate(documents):
        rows.add(place, document)
    free = [document.free_variables for document in documents]
    starts = starts_of([document.graph.variables for document in documents])
    features, signals, numbers_of_signal = rows.arrays(), *signal
    table, offsets = packed(
        {
            "document_structure": numbers,
            "document_start": starts,
            "free_start": starts_of([len(variables) for variables in free]),
            "free": joined(free, np.int64),
            **structures.arrays(),
            **_group_arrays(model.groups),
            "group_alone": _alone(model, structures, rows),
            **{name: features.pop(name) for name in ("row_base", "row_step", "row_start")},
            "gold": joined([document.truth for document in documents], np.int64),
            **signals,
        },
        np.int64,
    )
    arrays = LabelArrays(
        table=table,
        **features,
        **offsets,
        groups=len(model.groups),
        width=largest,
        proposal=code[0],
        far=len(features["index"]) * largest > _NEAR * len(documents),
        scan=code[1],
        **numbers_of_signal,
    )
    values = np.zeros(int(starts[-1]), dtype=np.int64)
    world = LabelWorld(values, np.zeros(3 * arrays.labels, dtype=np.int64), np.zeros(largest), np.zeros(largest))
    sizes = np.diff(starts)
    return Corpus(arrays, world, values, starts, lambda document: int(sizes[document]) * largest)


@dataclass
class _Structures:
    """Distinct graphs, by the factors of each variable."""

    model: GraphModel
    graphs: dict[FactorGraph, int] = field(default_factory=dict)

    def number(self, graph: FactorGraph) -> int:
        return self.graphs.setdefault(graph, len(self.graphs))

    def arrays(self) -> dict[str, Any]:
        pieces = [_incidence_arrays(self.model, graph) for graph in self.graphs]
        names = ("group", "factor", "stride", "first")
        found: dict[str, Any] = {
            f"incidence_{name}": joined([piece[name] for piece in pieces], np.bool_ if name == "first" else np.int64)
            for name in names
        }
        found["structure_variable"] = starts_of([graph.variables for graph in self.graphs])[:-1].copy()
        found["cardinality"] = joined([graph.cardinalities for graph in self.graphs], np.int64)
        found["incidence_start"] = starts_of(joined([piece["degree"] for piece in pieces], np.int64))
        found["other_start"] = starts_of(joined([piece["others"] for piece in pieces], np.int64))
        found["other_variable"] = joined([piece["other_variable"] for piece in pieces], np.int64)
        found["other_stride"] = joined([piece["other_stride"] for piece in pieces], np.int64)
        return found


def _incidence_arrays(model: GraphModel, graph: FactorGraph) -> dict[str, Any]:
    """Incidences in the order of :meth:`GraphModel.incidences`: by variable, group, factor; no loop over factors."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("variable", "group", "factor", "stride", "first", "others", "member", "member_stride")
    }
    arity = max((group.arity for group in graph.groups), default=1)
    for group in graph.groups:
        if group.arity == 0 or group.count == 0:
            continue
        strides = np.array([math.prod(group.shape[axis + 1 :]) for axis in range(group.arity)])
        for axis in range(group.arity):
            rest = [other for other in range(group.arity) if other != axis]
            members = np.full((group.count, arity), -1)
            members[:, : len(rest)] = group.scopes[:, rest]
            member_strides = np.zeros((group.count, arity), dtype=np.int64)
            member_strides[:, : len(rest)] = strides[rest]
            columns["variable"].append(group.scopes[:, axis])
            columns["group"].append(np.full(group.count, model.number[group.name]))
            columns["factor"].append(np.arange(group.count))
            columns["stride"].append(np.full(group.count, strides[axis]))
            columns["first"].append(np.full(group.count, axis == 0))
            columns["others"].append(np.full(group.count, len(rest)))
            columns["member"].append(members)
            columns["member_stride"].append(member_strides)
    if not columns["variable"]:
        empty = np.zeros(0, dtype=np.int64)
        names = ("group", "factor", "stride", "first", "others", "other_variable", "other_stride")
        return {**dict.fromkeys(names, empty), "degree": np.zeros(graph.variables, dtype=np.int64)}
    flat = {name: np.concatenate(values) for name, values in columns.items()}
    position = {name: place for place, name in enumerate(group.name for group in graph.groups)}
    rank = np.array([position.get(group.name, 0) for group in model.groups])[flat["group"]]
    order = np.lexsort((flat["factor"], rank, flat["variable"]))
    flat = {name: values[order] for name, values in flat.items()}
    real = flat["member"] >= 0
    return {
        **{name: flat[name] for name in ("group", "factor", "stride", "first", "others")},
        "degree": np.bincount(flat["variable"], minlength=graph.variables),
        "other_variable": flat["member"][real],
        "other_stride": flat["member_stride"][real],
    }


@dataclass
class _FeatureRows:
    """Rows of features of all documents, and where those of each group of each document begin."""

    model: GraphModel
    documents: int
    start: list[Integers] = field(default_factory=list)
    index: list[NDArray[Any]] = field(default_factory=list)
    value: list[NDArray[Any] | None] = field(default_factory=list)
    count: int = 0
    known: dict[int, tuple[Features, int]] = field(default_factory=dict)  # by identity: rows that documents share

    def __post_init__(self) -> None:
        self.base = np.zeros((self.documents, len(self.model.groups)), dtype=np.int64)
        self.step = np.zeros((self.documents, len(self.model.groups)), dtype=np.int64)

    def add(self, place: int, document: GraphDocument) -> None:
        for group in document.graph.groups:
            number = self.model.number[group.name]
            features = self.model.features_of(document, group)
            self.base[place, number] = self._place(features)
            self.step[place, number] = 1 if features.rows > 1 else 0

    def _place(self, features: Features) -> int:
        if id(features) not in self.known:
            self.known[id(features)] = features, self.count
            self.start.append(np.diff(features.start))
            self.index.append(features.index)
            self.value.append(features.value)
            self.count += features.rows
        return self.known[id(features)][1]

    def arrays(self) -> dict[str, Any]:
        values = np.zeros(0)
        if any(value is not None for value in self.value):
            both = zip(self.value, self.index, strict=True)
            values = joined([np.ones(len(index)) if value is None else value for value, index in both], np.float64)
        return {
            "row_base": self.base,
            "row_step": self.step,
            "row_start": starts_of(joined(self.start, np.int64)),
            "index": joined(self.index, np.int32),
            "value": values,
        }


def _group_arrays(groups: Sequence[GroupWeights]) -> dict[str, Any]:
    tables, firsts, count = [], [], 0
    for group in groups:
        firsts.append(-1 if group.columns is None else count)
        if group.columns is not None:
            tables.append(np.array(group.columns))
            count += len(group.columns)
    return {
        "group_base": np.array([group.base for group in groups], dtype=np.int64),
        "group_width": np.array([group.width for group in groups], dtype=np.int64),
        "group_column": np.array(firsts, dtype=np.int64),
        "column": joined(tables, np.int64),
    }


def _alone(model: GraphModel, structures: _Structures, rows: _FeatureRows) -> NDArray[np.bool_]:
    """Groups no weight of which can come twice in the difference of one variable's change.

    So where a variable has at most one factor of the group, cells have columns of their own, no other group shares the
    table, and no row names a feature twice.
    """
    bases = [group.base for group in model.groups]
    alone = np.array([group.columns is None and bases.count(group.base) == 1 for group in model.groups], dtype=np.bool_)
    for graph in structures.graphs:
        for group in graph.groups:
            if group.count and np.bincount(group.scopes.reshape(-1), minlength=1).max(initial=0) > 1:
                alone[model.number[group.name]] = False
    for number in np.flatnonzero(alone).tolist():
        features = {rows.base[place, number] for place in range(rows.documents)}
        kept = [known for known, first in rows.known.values() if first in features]
        alone[number] = not any(_repeats(known) for known in kept)
    return alone


def _repeats(features: Features) -> bool:
    """Whether a row names a feature twice."""
    row = np.repeat(np.arange(features.rows), np.diff(features.start))
    order = np.lexsort((features.index, row))
    index, row = features.index[order], row[order]
    return bool(((index[1:] == index[:-1]) & (row[1:] == row[:-1])).any())


def _signal(
    metric: Any, documents: Sequence[GraphDocument], largest: int
) -> tuple[dict[str, Integers], dict[str, Any]] | None:
    """The metric as integer arrays and as what else there is, or None where compiled walks do not know it."""
    scored = np.array([int((document.truth >= 0).sum()) for document in documents], dtype=np.float64)
    nothing = np.full(largest, -1, dtype=np.int64)
    parts: dict[str, Integers] = {
        "label_of": nothing,
        "entity_type": nothing,
        "continues": nothing,
        "gold_end": nothing,
    }
    rest = {"metric": codes.HAMMING, "weight": np.maximum(scored, 1.0), "beta": 1.0, "labels": 1, "label_step": 0}
    if metric is None or isinstance(metric, Accuracy | HammingError):
        return parts, rest
    if isinstance(metric, Correct):
        return parts, {**rest, "weight": np.ones(len(documents))}
    if isinstance(metric, EntityF1Score):
        return {**parts, **_entities(metric, documents, largest)}, {**rest, "metric": codes.ENTITY}
    named = _named(metric)
    if named is None:
        return None
    if isinstance(metric, VariableF1):
        for place, document in enumerate(documents):
            if document.graph.variables > metric.variables:
                raise ValueError(
                    f"document {place} has {document.graph.variables} variables, the metric is of {metric.variables}; "
                    "give each document a metric of its own size"
                )
    label_of = nothing.copy()
    for value, label in named.items():
        if 0 <= value < largest:
            label_of[value] = label
    macro = isinstance(metric, ValueF1 | VariableF1) and metric.macro
    return {**parts, "label_of": label_of}, {
        **rest,
        "metric": codes.COUNTS,
        "beta": float(metric.beta),
        "labels": metric.labels if macro else 1,
        "label_step": 1 if macro and isinstance(metric, VariableF1) else 0,
    }


def _named(metric: Any) -> dict[int, int] | None:
    """The label that each value decides for, of the first variable."""
    if isinstance(metric, FBetaScore):
        return dict.fromkeys(label_list(metric.positive), 0)
    if isinstance(metric, ValueF1):
        return {int(value): place if metric.macro else 0 for place, value in enumerate(metric.values)}
    return {metric.positive: 0} if isinstance(metric, VariableF1) else None


def _entities(metric: EntityF1Score, documents: Sequence[GraphDocument], largest: int) -> dict[str, Integers]:
    if largest > len(metric.tags):
        raise ValueError(
            f"variables have up to {largest} labels, the metric names {len(metric.tags)} tags; name one for each label"
        )
    ends = []
    for place, document in enumerate(documents):
        if (document.truth < 0).any():
            raise ValueError(f"document {place} has a token without a right tag; F1 of entities needs all of them")
        ends.append(_gold_ends(metric, document.truth))
    return {
        "entity_type": metric.types[:largest],
        "continues": metric.continues[:largest, :largest].astype(np.int64),
        "gold_end": joined(ends, np.int64),
    }


def _gold_ends(metric: EntityF1Score, tags: Integers) -> Integers:
    """One past the last token of the entity that begins at each token, -1 where none does."""
    goes_on = np.zeros(len(tags) + 1, dtype=np.bool_)
    if len(tags):
        goes_on[1:-1] = metric.continues[tags[:-1], tags[1:]]
    places = np.where(goes_on, len(tags) + 1, np.arange(len(tags) + 1))
    after = np.minimum.accumulate(places[::-1])[::-1]
    begins = (metric.types[tags] >= 0) & ~goes_on[:-1]
    return np.where(begins, after[1:], -1)
