"""The tools that are compared: each takes a problem and labels, and gives the cluster of each record.

In: a :class:`~studies.entities.data.Problem` to train on and one to resolve. Out: clusters. Peers are optional.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe import Dedupe, Kind, guess_kind
from studies.entities.data import Problem


@dataclass(frozen=True, eq=False)
class Labels:
    """Nothing, pairs of rows with answers, or (``ids``) the truth of the training problem."""

    pairs: NDArray[Any] | None = None
    match: NDArray[Any] | None = None
    ids: bool = False


Tool = Callable[[Problem, Labels, Problem], NDArray[Any]]


def loopwise(train: Problem, labels: Labels, test: Problem) -> NDArray[Any]:
    """This library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = _ordered(train)
        model = Dedupe()
        if labels.ids:
            model.fit(*_tables(train), ids=train.truth[first].tolist(), **_other(train))
        elif labels.pairs is not None and labels.match is not None:
            rows = second[labels.pairs]
            pairs = {"match": rows[labels.match].tolist(), "distinct": rows[~labels.match].tolist()}
            model.fit(*_tables(train), pairs=pairs, **_other(train))
        else:
            model.fit(*_tables(train), **_other(train))
        found = model.predict(*_tables(test), **_other(test)).clusters
        placed: NDArray[Any] = found[_ordered(test)[1]]
        return placed


def _tables(problem: Problem) -> tuple[object, ...]:
    return problem.tables()[:1]


def _other(problem: Problem) -> dict[str, object]:
    return {"other": problem.tables()[1]} if problem.side is not None else {}


def _ordered(problem: Problem) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows in the order of the two tables one after another, and where each row then stands."""
    size = len(problem.truth)
    order = np.arange(size) if problem.side is None else np.argsort(problem.side, kind="stable")
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    return order, place


# ------------------------------------------------------------------------------------------------------- dedupe


def dedupe_3(train: Problem, labels: Labels, test: Problem) -> NDArray[Any]:
    """The dedupe library with its own defaults, one string variable a column (text where long)."""
    import dedupe  # type: ignore[import-not-found,unused-ignore]
    from dedupe import variables  # type: ignore[import-not-found,unused-ignore]

    logging.getLogger("dedupe").setLevel(logging.ERROR)
    fields = []
    for name, column in zip(train.records.names, train.records.columns, strict=True):
        kind = guess_kind(name, column)
        if kind is Kind.IGNORE:
            continue
        variable = variables.Text if kind in (Kind.TEXT, Kind.SET) else variables.String
        fields.append(variable(name, has_missing=True))
    linking = train.side is not None
    tool = dedupe.RecordLink(fields, num_cores=1) if linking else dedupe.Dedupe(fields, num_cores=1)
    told: dict[str, list[Any]] = {"match": [], "distinct": []}
    assert labels.pairs is not None and labels.match is not None
    for (one, other), match in zip(labels.pairs.tolist(), labels.match.tolist(), strict=True):
        if linking and train.side is not None and train.side[one] == 1:
            one, other = other, one
        told["match" if match else "distinct"].append((_row(train, one), _row(train, other)))
    stream = io.StringIO(
        json.dumps({key: [{"__class__": "tuple", "__value__": pair} for pair in pairs] for key, pairs in told.items()})
    )
    tool.prepare_training(*_dictionaries(train), training_file=stream, sample_size=1500)
    tool.train(index_predicates=False)
    clusters = np.arange(len(test.truth))
    if linking:
        for (one, other), _ in tool.join(*_dictionaries(test), threshold=0.5, constraint="one-to-one"):
            clusters[other] = clusters[one]
    else:
        for number, (members, _) in enumerate(tool.partition(*_dictionaries(test), threshold=0.5)):
            clusters[list(members)] = len(clusters) + number
    return clusters


def _row(problem: Problem, row: int) -> dict[str, str | None]:
    return {name: " ".join(value.lower().split()) or None for name, value in problem.records.row(row).items()}


def _dictionaries(problem: Problem) -> list[dict[int, dict[str, str | None]]]:
    rows = np.arange(len(problem.truth))
    sides = [rows] if problem.side is None else [rows[problem.side == 0], rows[problem.side == 1]]
    return [{row: _row(problem, row) for row in side.tolist()} for side in sides]


# ------------------------------------------------------------------------------------------------------- splink


def splink(train: Problem, labels: Labels, test: Problem) -> NDArray[Any]:
    """Splink without labels: Jaro-Winkler levels on short columns, exact blocking on each, EM, threshold .9."""
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    import splink.comparison_library as cl  # type: ignore[import-not-found,unused-ignore]
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on  # type: ignore[import-not-found,unused-ignore]

    logging.getLogger("splink").setLevel(logging.ERROR)
    names = {name: f"c{place}" for place, name in enumerate(test.records.names)}
    frame = pd.DataFrame(
        {
            names[name]: [value.lower() or None for value in column]
            for name, column in zip(test.records.names, test.records.columns, strict=True)
        }
    )
    frame["unique_id"] = np.arange(len(frame))
    kept = [
        names[name]
        for name, column in zip(test.records.names, test.records.columns, strict=True)
        if guess_kind(name, column) is not Kind.IGNORE
    ]
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=[cl.JaroWinklerAtThresholds(name, [0.95, 0.88, 0.7]) for name in kept],
        blocking_rules_to_generate_predictions=[block_on(name) for name in kept],
    )
    linker = Linker(DuckDBAPI().register(frame), settings, log_level=None)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    for name in kept[:3]:
        linker.training.estimate_parameters_using_expectation_maximisation(block_on(name))
    pairs = linker.inference.predict(threshold_match_probability=0.01)
    found = linker.clustering.cluster_pairwise_predictions_at_threshold(pairs, threshold_match_probability=0.9)
    table = found.as_pandas_dataframe().set_index("unique_id")["cluster_id"]
    return np.unique(table.loc[np.arange(len(frame))].to_numpy(), return_inverse=True)[1]


TOOLS: dict[str, Tool] = {"loopwise": loopwise, "dedupe": dedupe_3, "splink": splink}
