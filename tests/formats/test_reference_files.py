"""The benchmark collection: every file is read, and a few are solved by elimination.

The folder is looked for beside the repository, or where LOOPWISE_DATA says.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from loopwise.formats import TableModel, read_evidence, read_mar, read_model, read_pr, write_model

DATA = Path(os.environ.get("LOOPWISE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "uai"
UAI = DATA / "uai2014"
LIBDAI = DATA / "libdai"

pytestmark = pytest.mark.skipif(
    not UAI.is_dir(), reason=f"no benchmark collection at {DATA}; set LOOPWISE_DATA to its parent folder"
)

LARGEST_TABLE = 2**20

Factor = tuple[tuple[int, ...], np.ndarray]


def product_without(variable: int, factors: list[Factor]) -> tuple[Factor, float]:
    """The sum over ``variable`` of a product of tables, scaled to at most 1, and the log of the scale."""
    rest = sorted({name for scope, _ in factors for name in scope} - {variable})
    axis_of = {name: axis for axis, name in enumerate([*rest, variable])}
    size_of = {name: size for scope, table in factors for name, size in zip(scope, table.shape, strict=True)}
    assert math.prod(size_of.values()) <= LARGEST_TABLE, "an instance too wide for this oracle"
    total: np.ndarray = np.ones([1] * len(axis_of))
    for scope, table in factors:
        order = sorted(range(len(scope)), key=lambda axis: axis_of[scope[axis]])
        shape = [1] * len(axis_of)
        for axis in order:
            shape[axis_of[scope[axis]]] = table.shape[axis]
        total = total * table.transpose(order).reshape(shape)
    summed = total.sum(axis=-1)
    scale = float(summed.max())
    return (tuple(rest), summed / scale), math.log(scale)


def elimination_order(model: TableModel, evidence: dict[int, int]) -> list[int]:
    """Always a variable whose elimination joins the fewest pairs of neighbours that were not joined."""
    neighbours: dict[int, set[int]] = {v: set() for v in range(model.variables) if v not in evidence}
    for scope in model.scopes:
        free = {variable for variable in scope if variable not in evidence}
        for variable in free:
            neighbours[variable] |= free - {variable}

    def fill(variable: int) -> int:
        around = neighbours[variable]
        return sum(len(around - neighbours[other]) - 1 for other in around)

    order = []
    while neighbours:
        variable = min(neighbours, key=fill)
        around = neighbours.pop(variable)
        for other in around:
            neighbours[other] = (neighbours[other] | around) - {variable, other}
        order.append(variable)
    return order


def log_partition(model: TableModel, evidence: dict[int, int]) -> float:
    """Variable elimination, independent of all inference in the library."""
    factors: list[Factor] = []
    for scope, table in zip(model.scopes, model.tables, strict=True):
        index = tuple(evidence.get(variable, slice(None)) for variable in scope)
        factors.append((tuple(variable for variable in scope if variable not in evidence), table[index]))
    total = 0.0
    for variable in elimination_order(model, evidence):
        touching = [factor for factor in factors if variable in factor[0]]
        if not touching:
            total += math.log(int(model.cardinalities[variable]))
            continue
        factors = [factor for factor in factors if variable not in factor[0]]
        message, scale = product_without(variable, touching)
        factors.append(message)
        total += scale
    return total + sum(math.log(float(table)) for _, table in factors)


def model_and_evidence(name: str) -> tuple[TableModel, dict[int, int]]:
    model = read_model(UAI / f"{name}.uai.gz")
    evidence_file = UAI / f"{name}.uai.evid"
    return model, read_evidence(evidence_file, model.cardinalities) if evidence_file.exists() else {}


def test_every_model_is_read_with_its_evidence_and_solutions() -> None:
    models = sorted(UAI.glob("*.uai.gz"))
    assert models
    for path in models:
        name = path.name.removesuffix(".uai.gz")
        model, evidence = model_and_evidence(name)
        assert model.factors > 0
        solution = UAI / f"{name}.uai.MAR.gz"
        if solution.exists():
            marginals = read_mar(solution, model.cardinalities)
            assert max(abs(marginal.sum() - 1) for marginal in marginals) < 1e-4
            for variable, value in evidence.items():
                assert marginals[variable][value] == 1
        if (UAI / f"{name}.uai.PR").exists():
            assert math.isfinite(read_pr(UAI / f"{name}.uai.PR"))


@pytest.mark.parametrize("name", ["Pedigree_13", "Promedus_26", "Promedus_29"])
def test_partition_function_and_a_marginal_of_what_was_read(name: str) -> None:
    model, evidence = model_and_evidence(name)
    assert evidence
    whole = log_partition(model, evidence)
    assert whole / math.log(10) == pytest.approx(read_pr(UAI / f"{name}.uai.PR"), rel=1e-5)
    marginals = read_mar(UAI / f"{name}.uai.MAR.gz", model.cardinalities)
    uncertain = int(np.argmin([abs(marginal[0] - 0.4) for marginal in marginals]))
    clamped = log_partition(model, {**evidence, uncertain: 0})
    assert math.exp(clamped - whole) == pytest.approx(marginals[uncertain][0], abs=1e-5)


def test_every_factor_graph_is_read_and_round_trips(tmp_path: Path) -> None:
    graphs = sorted(LIBDAI.glob("*.fg.gz"))
    assert graphs
    for path in graphs:
        model = read_model(path)
        write_model(tmp_path / "again.fg", model)
        assert read_model(tmp_path / "again.fg") == model
        write_model(tmp_path / "other.uai.gz", model)
        converted = read_model(tmp_path / "other.uai.gz")
        assert converted.scopes == model.scopes
        assert all(np.array_equal(a, b) for a, b in zip(converted.tables, model.tables, strict=True))


def test_alarm_is_a_bayesian_network_in_the_axis_order_read() -> None:
    """Each table is a conditional distribution of one of its variables, but only with the axes right."""
    model = read_model(LIBDAI / "alarm.fg.gz")
    for table in model.tables:
        assert any(np.allclose(table.sum(axis=axis), 1, atol=1e-3) for axis in range(table.ndim))
    assert log_partition(model, {}) == pytest.approx(0, abs=1e-3)
