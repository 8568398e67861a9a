"""The tools that are compared: each takes a problem and labels, and gives the cluster of each record.

In: a :class:`~studies.entities.data.EntityProblem` to train on and one to resolve. Out: clusters. Peers are optional.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from loopwise.apps.dedupe import Dedupe, DedupeReport, Kind, guess_kind
from studies.entities.data import EntityProblem
from studies.entities.protocol import AVERAGE, DEDUPE, ENTITIES, OURS, SPLINK


@dataclass(frozen=True, eq=False)
class PairLabels:
    """Nothing, pairs of rows with answers, or (``ids``) the truth of the training problem."""

    pairs: NDArray[Any] | None = None
    match: NDArray[Any] | None = None
    ids: bool = False


Answer = dict[str, NDArray[Any]]  # clusters by tool; of ours, several ways
Tool = Callable[[EntityProblem, PairLabels, EntityProblem], Answer]


def loopwise(train: EntityProblem, labels: PairLabels, test: EntityProblem) -> Answer:
    """This library; with ids of one table also average linkage and the model of entities, whichever was chosen."""
    ways = {OURS: None} | ({AVERAGE: "average", ENTITIES: "entities"} if labels.ids and train.side is None else {})
    chosen = ""
    found: Answer = {}
    for name, method in ways.items():
        if chosen in ("average", method):  # was best of all, so it is best of fewer
            found[name] = found[OURS]
            continue
        found[name], taken = resolved(train, labels, test, method)
        chosen = chosen or taken
    return found


def resolved(
    train: EntityProblem, labels: PairLabels, test: EntityProblem, method: str | None = None
) -> tuple[NDArray[Any], str]:
    """Clusters of this library, and the way they were made."""
    first, second = _ordered(train)
    told: dict[str, Any] = {}
    if labels.ids:
        told["ids"] = train.truth[first].tolist()
    elif labels.pairs is not None and labels.match is not None:
        rows = second[labels.pairs]
        told["pairs"] = {"match": rows[labels.match].tolist(), "distinct": rows[~labels.match].tolist()}
    model = Dedupe(method=method).fit(_tables(train)[0], **{**_other(train), **told})
    found = model.predict(*_tables(test), **_other(test)).clusters
    return found[_ordered(test)[1]], model.trained_.method.value


def _tables(problem: EntityProblem) -> tuple[Any, ...]:
    return problem.tables()[:1]


def _other(problem: EntityProblem) -> dict[str, Any]:
    return {"other": problem.tables()[1]} if problem.side is not None else {}


def _ordered(problem: EntityProblem) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows in the order of the two tables one after another, and where each row then stands."""
    size = len(problem.truth)
    order = np.arange(size) if problem.side is None else np.argsort(problem.side, kind="stable")
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    return order, place


# ------------------------------------------------------------------------------------------------------- dedupe


def dedupe_3(train: EntityProblem, labels: PairLabels, test: EntityProblem) -> NDArray[Any]:
    """The dedupe library with its own defaults; variables of columns by their kinds, as its examples have them."""
    import dedupe  # type: ignore[import-not-found,unused-ignore]
    from dedupe import variables  # type: ignore[import-not-found,unused-ignore]

    logging.getLogger("dedupe").setLevel(logging.ERROR)
    kinds: dict[str, Kind] = {name: kind for name, kind in _kinds(train).items() if kind is not Kind.IGNORE}
    made: dict[Kind, Any] = {Kind.TEXT: variables.Text, Kind.SET: variables.Set, Kind.NUMBER: variables.Price}
    made |= {Kind.POINT: variables.LatLong, Kind.CATEGORY: variables.Exact}
    string: Any = variables.String
    fields = [made.get(kind, string)(name, has_missing=True) for name, kind in kinds.items()]
    linking = train.side is not None
    tool = dedupe.RecordLink(fields, num_cores=1) if linking else dedupe.Dedupe(fields, num_cores=1)
    told: dict[str, list[Any]] = {"match": [], "distinct": []}
    assert labels.pairs is not None and labels.match is not None
    rows = _dictionaries(train, kinds)
    whole = {row: cells for table in rows for row, cells in table.items()}
    for (one, other), match in zip(labels.pairs.tolist(), labels.match.tolist(), strict=True):
        if linking and train.side is not None and train.side[one] == 1:
            one, other = other, one
        told["match" if match else "distinct"].append((whole[one], whole[other]))
    stream = io.StringIO()
    dedupe.serializer.write_training(told, stream)
    stream.seek(0)
    tool.prepare_training(*rows, training_file=stream, sample_size=1500)
    tool.train(index_predicates=False)  # with them most tables here take longer than the time allowed
    clusters = np.arange(len(test.truth))
    asked = _dictionaries(test, kinds)
    if linking:
        for (one, other), _ in tool.join(*asked, threshold=0.5, constraint="one-to-one"):
            clusters[other] = clusters[one]
    else:
        for number, (members, _) in enumerate(tool.partition(*asked, threshold=0.5)):
            clusters[list(members)] = len(clusters) + number
    return clusters


def _kinds(problem: EntityProblem) -> dict[str, Kind]:
    columns = zip(problem.records.names, problem.records.columns, strict=True)
    return {name: guess_kind(name, column) for name, column in columns}


def _cell(kind: Kind, value: str) -> Any:
    """As dedupe wants a value of this kind; None where missing."""
    plain = " ".join(value.lower().split())
    if not plain:
        return None
    if kind is Kind.SET:
        return tuple(sorted(part.strip() for part in plain.replace("|", "**").split("**") if part.strip()))
    try:
        if kind is Kind.NUMBER:
            return float(plain.replace("$", "").replace(",", "")) or None
        if kind is Kind.POINT:
            return tuple(float(part) for part in plain.split(","))
    except ValueError:
        return None
    return plain


def _dictionaries(problem: EntityProblem, kinds: dict[str, Kind]) -> list[dict[int, dict[str, Any]]]:
    rows = np.arange(len(problem.truth))
    sides = [rows] if problem.side is None else [rows[problem.side == 0], rows[problem.side == 1]]
    return [
        {
            row: {name: _cell(kind, problem.records.row(row)[name]) for name, kind in kinds.items()}
            for row in side.tolist()
        }
        for side in sides
    ]


# ------------------------------------------------------------------------------------------------------- splink


THRESHOLDS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)  # of splink: the second without labels, else the best on them


def splink(train: EntityProblem, labels: PairLabels, test: EntityProblem) -> NDArray[Any]:
    """Splink: Jaro-Winkler levels of each column, blocking on each column's value and first letters, EM.

    Labelled pairs choose its threshold; of ids come the probabilities of levels among matches, too.
    """
    if labels.ids:
        settings, known = _splink_pairs(train, None, ids=True)
        _, pairs = _splink_pairs(test, settings)
        return _joined_at(test, pairs, max(THRESHOLDS, key=lambda cut: _score(_joined_at(train, known, cut), train)))
    _, pairs = _splink_pairs(test, None)
    best = THRESHOLDS[1]
    if labels.pairs is not None and labels.match is not None:
        one, other = labels.pairs.T
        wrong = {}
        for cut in THRESHOLDS:
            found = _joined_at(test, pairs, cut)
            wrong[cut] = int(((found[one] == found[other]) != labels.match).sum())
        best = min(THRESHOLDS, key=lambda cut: (wrong[cut], abs(THRESHOLDS.index(cut) - 1)))
    return _joined_at(test, pairs, best)


def _score(found: NDArray[Any], problem: EntityProblem) -> float:
    report = DedupeReport.of(found, problem.truth, problem.side)
    return report.b_cubed + report.pairwise_f1


def _joined_at(problem: EntityProblem, pairs: tuple[NDArray[Any], ...], cut: float) -> NDArray[Any]:
    """Connected components of the pairs above a threshold; between two tables the best partners of each other."""
    one, other, probability = (part[pairs[2] >= cut] for part in pairs)
    size = len(problem.truth)
    if problem.side is not None:
        order = np.argsort(-probability, kind="stable")
        taken, kept = np.zeros(size, dtype=bool), []
        for place in order.tolist():
            if not (taken[one[place]] or taken[other[place]]):
                taken[one[place]] = taken[other[place]] = True
                kept.append(place)
        one, other = one[kept], other[kept]
    graph = coo_matrix((np.ones(len(one)), (one, other)), shape=(size, size))
    found: NDArray[Any] = connected_components(graph, directed=False)[1].astype(np.int64)
    return found


def _splink_pairs(problem: EntityProblem, settings: Any, ids: bool = False) -> tuple[Any, tuple[NDArray[Any], ...]]:
    """The settings of a trained model, and pairs of rows with their probabilities."""
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    import splink.comparison_library as cl  # type: ignore[import-not-found,unused-ignore]
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on  # type: ignore[import-not-found,unused-ignore]

    logging.getLogger("splink").setLevel(logging.ERROR)
    columns = dict(zip(problem.records.names, problem.records.columns, strict=True))
    kept = [name for name, kind in _kinds(problem).items() if kind is not Kind.IGNORE]
    frame = pd.DataFrame(
        {f"c{place}": [value.lower() or None for value in columns[name]] for place, name in enumerate(kept)}
    )
    frame["unique_id"] = np.arange(len(frame))
    frame["entity"] = problem.truth if ids else -1
    names = [f"c{place}" for place in range(len(kept))]
    short = [block_on(f"substr({name}, 1, 5)") for name in names if frame[name].nunique() > len(frame) / 20]
    trained = settings is not None
    if not trained:
        settings = SettingsCreator(
            link_type="dedupe_only" if problem.side is None else "link_only",
            comparisons=[cl.JaroWinklerAtThresholds(name, [0.95, 0.88, 0.7]) for name in names],
            blocking_rules_to_generate_predictions=[block_on(name) for name in names] + short,
        )
    database = DuckDBAPI()
    if problem.side is None:
        linker = Linker(database.register(frame), settings, log_level=None)
    else:
        sides = [database.register(frame[problem.side == side]) for side in (0, 1)]
        linker = Linker(sides, settings, log_level=None)
    if not trained:
        pairs = [pair for pair in combinations(names, 2) if _shared(frame[list(pair)], problem.side)]
        _train_splink(linker, names, pairs, ids)
    table = linker.inference.predict(threshold_match_probability=0.01).as_pandas_dataframe()
    found = tuple(table[name].to_numpy() for name in ("unique_id_l", "unique_id_r", "match_probability"))
    return linker.misc.save_model_to_json(None), found


def _shared(frame: Any, side: NDArray[Any] | None) -> bool:
    """Whether two records (of two tables, where there are two) have the same values in these columns."""
    known = frame.notna().all(axis=1).to_numpy()
    rows = [tuple(row) for row in frame[known].itertuples(index=False)]
    if side is None:
        return len(set(rows)) < len(rows)
    where = side[known].tolist()
    first, second = ({row for row, one in zip(rows, where, strict=True) if one == wanted} for wanted in (0, 1))
    return bool(first & second)


def _train_splink(linker: Any, names: list[str], pairs: list[tuple[str, str]], ids: bool) -> None:
    """As its tutorial does: how rare matches are from what surely matches, u by random pairs, m by labels or EM."""
    from splink import block_on
    from splink.internals.exceptions import EMTrainingException  # type: ignore[import-not-found,unused-ignore]

    rules = ["l.entity = r.entity"] if ids else [block_on(*pair) for pair in pairs]
    if rules:  # else its default stays
        linker.training.estimate_probability_two_random_records_match(rules, recall=1.0 if ids else 0.7)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    if ids:
        linker.training.estimate_m_from_label_column("entity")
        return
    for name in names[:3]:
        for rule in (block_on(name), block_on(f"substr({name}, 1, 5)")):
            try:
                linker.training.estimate_parameters_using_expectation_maximisation(rule)
                break
            except EMTrainingException:  # no two records share the value: first letters, then
                continue


TOOLS: dict[str, Tool] = {
    OURS: loopwise,
    DEDUPE: lambda *told: {DEDUPE: dedupe_3(*told)},
    SPLINK: lambda *told: {SPLINK: splink(*told)},
}
