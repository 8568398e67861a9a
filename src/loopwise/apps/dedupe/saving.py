"""What a file keeps of a trained model of duplicates.

In: a fitted model. Out: weights as tensors, kinds, predicates and options as JSON; and back. Stage: use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.dedupe.blocking import KNOWN, Predicate
from loopwise.apps.dedupe.compare import ALL, RIVALS, Comparer
from loopwise.apps.dedupe.entities import EntityModel, cluster_model
from loopwise.apps.dedupe.kinds import Kind
from loopwise.apps.dedupe.pair_model import LEVELS, PER_COMPARISON, PairModel, SimilarityLevels
from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.training import Method, TrainedDedupe, Way
from loopwise.learn.files.fields import LARGEST, FieldError, Record

if TYPE_CHECKING:
    from loopwise.apps.dedupe.estimator import Dedupe

D = TypeVar("D", bound="Dedupe")
_LINKAGES = [Method.AVERAGE.value, Method.CONNECTED.value]


def kept(dedupe: Dedupe) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of a fitted model, and its tensors."""
    trained = dedupe.trained_
    tensors = {
        "factors": torch.from_numpy(np.ascontiguousarray(trained.pairs.levels.factors)),
        "pairs": torch.from_numpy(np.ascontiguousarray(trained.pairs.weights)),
        "entities": torch.from_numpy(np.ascontiguousarray(trained.entities.weights)),
    }
    description = {
        "columns": list(dedupe.kinds_),
        "kinds": [kind.value for kind in dedupe.kinds_.values()],
        "predicates": [{"column": each.column, "what": each.what} for each in dedupe.predicates_],
        "prior": trained.pairs.levels.prior,
        "method": trained.method.value,
        "threshold": trained.way.threshold,
        "start": trained.way.start.value,
        "join": trained.way.join,
        "linking": dedupe.linking_,
        "id_column": dedupe.id_column,
        "pairs_per_record": dedupe.pairs_per_record,
        "seed": dedupe.seed,
    }
    return description, tensors


def rebuilt(kind: type[D], told: Record) -> D:
    """The fitted model of a file."""
    names = told.texts("columns", distinct=True)
    values = told.texts("kinds")
    if len(values) != len(names):
        raise FieldError("kinds", f"has {len(values)} kinds for {len(names)} columns")
    for value in values:
        if value not in {each.value for each in Kind}:
            raise FieldError("kinds", f"has {value!r}, which this version of loopwise does not know")
    kinds = {name: Kind(value) for name, value in zip(names, values, strict=True)}
    compared = [name for name in names if kinds[name] is not Kind.IGNORE]
    if not compared:
        raise FieldError("kinds", "leaves no column to compare")
    linking = told.flag("linking")
    predicates = told.items("predicates", lambda inner, key: _predicate(inner.record(key), compared))
    columns, comparisons = len(compared) + 1, _comparisons(kinds, linking)
    levels = SimilarityLevels(told.weights("factors", (columns, len(LEVELS) + 1)), told.number("prior", -100.0, 100.0))
    pairs = PairModel(levels, told.weights("pairs", (2 + comparisons * PER_COMPARISON,)))
    seed = told.whole("seed", 0, LARGEST)
    entities = EntityModel(told.weights("entities", (cluster_model(columns).size,)), columns, seed)
    method = Method(told.choice("method", [each.value for each in Method]))
    dedupe = kind(
        id_column=told.maybe("id_column", Record.text), pairs_per_record=told.whole("pairs_per_record", 1), seed=seed
    )
    dedupe.kinds_, dedupe.predicates_, dedupe.linking_ = kinds, predicates, linking
    start = Method(told.choice("start", _LINKAGES)) if "start" in told else Method.AVERAGE  # older files have none
    join = told.maybe("join", lambda inner, key: inner.number(key, -100.0, 100.0)) if "join" in told else None
    way = Way(method, told.number("threshold", -100.0, 100.0), start, join)
    dedupe.trained_ = TrainedDedupe(pairs, way, entities)
    return dedupe


def _predicate(told: Record, columns: list[str]) -> Predicate:
    column, what = told.choice("column", [*columns, ALL]), told.choice("what", KNOWN)
    if what in ("nearest", "neighbourhood") and column != ALL:
        raise FieldError(told.name("column"), f"must be {ALL!r} for {what!r}")
    return Predicate(column, what)


def _comparisons(kinds: dict[str, Kind], linking: bool) -> int:
    """How many similarities there are, as a small table shows."""
    table = Records(tuple(kinds), tuple(("a",) for _ in kinds))
    return len(Comparer(table, kinds).names) + (len(RIVALS) if linking else 0)
