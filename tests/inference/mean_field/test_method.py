"""Mean field against enumeration, against its torch twin, and at hard zeros."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwise.graph.builders import complete, grid
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.mean_field.reference import sweep
from loopwise.notices import ConvergenceWarning
from loopwise.potentials.tables import TablePotentials
from oracles.mean_field_cases import exactly_one, log_partition, log_scores, lower_bound, problem_of, random_model

CLOSE = {"rtol": 0, "atol": 1e-10}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_bound_is_below_log_partition_and_beliefs_are_a_fixed_point(seed):
    graph, tables = random_model(seed)
    method = MeanField(iterations=10_000, tolerance=1e-12)
    beliefs = method(graph, tables)
    assert beliefs.status.converged and not beliefs.status.exact
    assert float(beliefs.log_partition) <= log_partition(graph, tables) + 1e-9
    again = sweep(problem_of(graph, tables), beliefs.states)
    torch.testing.assert_close(again, beliefs.states, **CLOSE)
    bound = lower_bound(problem_of(graph, tables), beliefs.states)
    torch.testing.assert_close(bound, beliefs.log_partition, **CLOSE)


def test_independent_variables_are_exact():
    graph = FactorGraph([2, 3], {"a": [[0], [0]], "b": [[1]], "none": np.zeros((1, 0), dtype=np.int64)})
    tables = {
        "a": np.log([[1.0, 3.0], [2.0, 1.0]]),
        "b": np.log([[0.2, 0.3, 0.5]]),
        "none": np.array([0.7]),
    }
    beliefs = MeanField()(graph, tables)
    expected = torch.tensor([0.4, 0.6, 0.2, 0.3, 0.5], dtype=torch.float64)
    torch.testing.assert_close(beliefs.states, expected)
    assert float(beliefs.log_partition) == pytest.approx(log_partition(graph, tables))
    torch.testing.assert_close(beliefs.factor("a"), expected[:2].expand(2, 2))
    torch.testing.assert_close(beliefs.factor("none"), torch.ones(1, dtype=torch.float64))


def test_factor_beliefs_are_products():
    graph = FactorGraph([2, 3, 2], {"triple": [[2, 0, 1]]})
    beliefs = MeanField()(graph, TablePotentials.random(graph, seed=3))
    a, b, c = (beliefs.marginal(variable) for variable in range(3))
    torch.testing.assert_close(beliefs.factor("triple")[0], torch.einsum("k,i,j->kij", c, a, b))


def test_batch_and_tied_tables_equal_one_by_one():
    graph = grid(3, 3, states=3)
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn(2, 3, 9, 3, generator=generator, dtype=torch.float64)
    pair = torch.randn(3, 1, 3, 3, generator=generator, dtype=torch.float64)  # tied over factors
    # Long enough for every example to reach its fixed point: the starts of one example differ from another's.
    method = MeanField(iterations=3000, tolerance=1e-13)
    together = method(graph, {"unary": unary + 5 * torch.eye(3)[0], "pair": pair})
    assert together.states.shape == (2, 3, 27) and together.log_partition.shape == (2, 3)
    for i, j in itertools.product(range(2), range(3)):
        alone = method(graph, {"unary": unary[i, j] + 5 * torch.eye(3)[0], "pair": pair[j].expand(12, 3, 3)})
        torch.testing.assert_close(together.states[i, j], alone.states, **CLOSE)
        torch.testing.assert_close(together.log_partition[i, j], alone.log_partition, **CLOSE)


def test_evidence_is_a_point_mass():
    graph = grid(2, 3)
    potentials = TablePotentials.random(graph, seed=2)
    beliefs = MeanField()(graph, potentials, {1: 1})
    assert beliefs.marginal(1).tolist() == [0.0, 1.0]
    tables = {name: table.detach().clone() for name, table in potentials().items()}
    tables["unary"][1, 0] = -torch.inf
    twin = MeanField()(graph, tables)
    torch.testing.assert_close(beliefs.states, twin.states, rtol=0, atol=1e-5)
    torch.testing.assert_close(beliefs.log_partition, twin.log_partition)
    everything = MeanField()(graph, potentials, dict.fromkeys(range(6), 1))
    assert everything.log_partition.item() == pytest.approx(log_scores(graph, tables)[-1])


def test_symmetry_is_broken_and_restarts_never_hurt():
    graph = complete(6, states=3)
    rng = np.random.default_rng(0)
    attractive = {"unary": 0.1 * rng.normal(size=(6, 3)), "pair": 2 * np.eye(3)}
    single = MeanField(iterations=1000)(graph, attractive)
    assert float(single.states.max()) > 0.9  # not the uniform saddle point
    bounds = [
        float(MeanField(iterations=1000, restarts=count)(graph, attractive).log_partition) for count in (1, 4, 16)
    ]
    assert bounds == sorted(bounds) and bounds[0] == float(single.log_partition)
    batch = {**attractive, "unary": rng.normal(size=(20, 6, 3))}
    few, many = (MeanField(iterations=1000, restarts=count)(graph, batch).log_partition for count in (1, 5))
    assert (many >= few).all() and (many > few + 1e-3).any()
    symmetric = {**attractive, "unary": np.zeros((6, 3))}
    assert float(MeanField(iterations=1000)(graph, symmetric).states.max()) > 0.9


def test_temperature_divides_the_potentials():
    graph = grid(2, 3, states=3)
    potentials = TablePotentials.random(graph, seed=5)
    cold = MeanField(temperature=0.5)(graph, potentials)
    scaled = MeanField()(graph, {name: 2 * table for name, table in potentials().items()})
    torch.testing.assert_close(cold.states, scaled.states)
    torch.testing.assert_close(cold.log_partition, 0.5 * scaled.log_partition)
    problem = problem_of(graph, potentials)
    torch.testing.assert_close(lower_bound(problem, cold.states, 0.5), cold.log_partition, **CLOSE)


def test_hard_constraints_start_from_a_possible_configuration():
    graph, one = exactly_one(4)
    weights = np.array([0.3, -1.0, 2.0, 0.1])
    tables = {"one": one, "unary": np.stack([np.zeros(4), weights], axis=1)}
    beliefs = MeanField(restarts=30)(graph, tables)
    # A product of distributions inside "exactly one" is a point mass: the best is the heaviest configuration.
    assert beliefs.states.reshape(4, 2)[:, 1].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert float(beliefs.log_partition) == pytest.approx(weights.max())
    assert beliefs.status.converged and "possible configuration" in str(beliefs.status)


def test_exclusive_or_leaves_the_free_variable_soft():
    parity = np.where(np.indices((2, 2)).sum(axis=0) == 1, 0.0, -np.inf)
    graph, tables = FactorGraph.from_factors([2, 2, 2], [((0, 1), parity), ((1, 2), np.log([[1.0, 3.0], [3.0, 1.0]]))])
    beliefs = MeanField(restarts=8)(graph, tables)
    assert sorted(beliefs.marginal(0).tolist()) == [0.0, 1.0]
    assert beliefs.marginal(0).tolist() == beliefs.marginal(1).tolist()[::-1]
    assert sorted(beliefs.marginal(2).tolist()) == pytest.approx([0.25, 0.75])
    assert float(beliefs.log_partition) == pytest.approx(np.log(4.0))
    assert float(beliefs.log_partition) < log_partition(graph, tables)


def test_impossible_model_is_reported_without_nan():
    differ = np.where(np.eye(2) == 1, -np.inf, 0.0)
    graph = FactorGraph([2, 2, 2], {"pair": [[0, 1], [1, 2], [0, 2]]})  # an odd cycle in two colours
    with pytest.warns(ConvergenceWarning, match="no start of finite bound"):
        beliefs = MeanField(restarts=2)(graph, {"pair": differ})
    assert float(beliefs.log_partition) == -np.inf
    assert torch.isfinite(beliefs.states).all() and not beliefs.status.converged
    assert "no start of finite bound" in str(beliefs.status)


def test_extreme_potentials_stay_finite():
    graph = grid(3, 3, states=3)
    beliefs = MeanField(iterations=1000)(graph, TablePotentials.random(graph, seed=0, scale=1e4))
    assert torch.isfinite(beliefs.states).all() and torch.isfinite(beliefs.log_partition)
    torch.testing.assert_close(beliefs.variables.sum(-1), torch.ones(9, dtype=torch.float64))


def test_cap_warns_only_where_a_tolerance_is_asked_for():
    graph = grid(3, 3)
    potentials = TablePotentials.random(graph, seed=0)
    with pytest.warns(ConvergenceWarning, match="cap of 1 sweeps"):
        capped = MeanField(iterations=1)(graph, potentials)
    assert not capped.status.converged and capped.status.sweeps.item() == 1
    exhausted = MeanField(iterations=3, tolerance=0)(graph, potentials)
    assert exhausted.status.sweeps.item() == 3


def test_same_seed_same_result_on_any_number_of_threads():
    graph = complete(5)
    tables = {"unary": torch.zeros(7, 5, 2), "pair": torch.eye(2).expand(7, 10, 2, 2)}
    one, many, other = (
        MeanField(restarts=3, seed=seed, threads=threads)(graph, tables) for seed, threads in ((4, 1), (4, 3), (5, 1))
    )
    assert torch.equal(one.states, many.states) and one.states.dtype == torch.float32
    assert not torch.equal(one.states, other.states)


def test_empty_graph_and_empty_batch():
    nothing = MeanField()(FactorGraph([], {}), {})
    assert nothing.states.shape == (0,) and float(nothing.log_partition) == 0.0
    graph = grid(1, 2)
    none = MeanField()(graph, {"unary": torch.zeros(2, 2), "pair": torch.zeros(0, 1, 2, 2)})
    assert none.states.shape == (0, 4) and none.log_partition.shape == (0,)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("iterations", 0),
        ("iterations", 1.5),
        ("tolerance", -1.0),
        ("tolerance", float("nan")),
        ("restarts", 0),
        ("seed", -1),
        ("seed", 2**63),
        ("temperature", 0.0),
        ("threads", 0),
    ],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=f"{option}.*{value}"):
        MeanField(**{option: value})
