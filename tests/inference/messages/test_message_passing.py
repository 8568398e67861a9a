"""Belief propagation against enumeration on trees, and its behaviour at the edges."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from loopwise.graph import FactorGraph, chain, grid
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Flooding, Residual, Sequential
from loopwise.notices import ConvergenceWarning
from oracles.enumeration import enumerate_model

ENGINES = [Reference(), Compiled()]
SCHEDULES = [Flooding(), Sequential(), Residual()]


def random_tree(seed: int) -> tuple[FactorGraph, dict[str, np.ndarray]]:
    """A factor tree: each new factor joins one old variable with up to three new ones; some hard zeros."""
    rng = np.random.default_rng(seed)
    cardinalities = [int(rng.integers(2, 4))]
    factors = []
    while len(cardinalities) < 7:
        new = list(range(len(cardinalities), len(cardinalities) + int(rng.integers(1, 4))))
        cardinalities += [int(rng.integers(1, 4)) for _ in new]
        scope = [int(rng.integers(0, new[0])), *new]
        rng.shuffle(scope)
        factors.append(scope)
    factors += [[int(variable)] for variable in rng.integers(0, len(cardinalities), 3)]
    tables = []
    for scope in factors:
        table = rng.normal(0, 2, [cardinalities[variable] for variable in scope])
        if table.size > 4 and rng.random() < 0.5:
            table.flat[rng.integers(0, table.size)] = -np.inf
        tables.append((scope, table))
    return FactorGraph.from_factors(cardinalities, tables)


@pytest.mark.parametrize("seed", range(8))
def test_trees_are_exact(seed: int) -> None:
    graph, tables = random_tree(seed)
    truth = enumerate_model(graph, tables)
    for engine in ENGINES:
        for schedule in SCHEDULES:
            beliefs = BP(engine=engine, schedule=schedule, tolerance=1e-12)(graph, tables)  # type: ignore[arg-type]
            assert beliefs.status.exact
            assert beliefs.status.converged
            np.testing.assert_allclose(beliefs.log_partition.item(), truth.log_partition, atol=1e-10)
            for variable in range(graph.variables):
                np.testing.assert_allclose(beliefs.marginal(variable), truth.variables[variable], atol=1e-10)
            for group in graph.groups:
                np.testing.assert_allclose(beliefs.factor(group.name), truth.factors[group.name], atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_one_sequential_sweep_solves_a_tree(engine: object, seed: int) -> None:
    graph, tables = random_tree(seed)
    beliefs = BP(engine=engine, schedule=Sequential(), iterations=1, tolerance=0)(graph, tables)  # type: ignore[arg-type]
    truth = enumerate_model(graph, tables)
    for variable in range(graph.variables):
        np.testing.assert_allclose(beliefs.marginal(variable), truth.variables[variable], atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_max_product_finds_the_optimum_of_a_tree_also_under_ties(seed: int) -> None:
    graph, tables = random_tree(seed)
    tables = {name: np.round(table / 2) for name, table in tables.items()}  # few distinct values: many ties
    beliefs = BP(temperature=0, schedule=Sequential())(graph, tables)
    assert beliefs.log_partition.item() == pytest.approx(enumerate_model(graph, tables).best_score, abs=1e-9)


def test_low_temperature_tends_to_max_product() -> None:
    graph, tables = random_tree(3)
    cold = BP(temperature=0.01, schedule=Sequential())(graph, tables)
    frozen = BP(temperature=0, schedule=Sequential())(graph, tables)
    assert cold.log_partition.item() == pytest.approx(frozen.log_partition.item(), abs=0.1)
    assert torch.equal(cold.assignment, frozen.assignment)


def test_a_million_variables_in_a_chain() -> None:
    """Sequential BP on 10^6 equal links: the middle is the stationary distribution of the transfer matrix."""
    length = 1_000_000
    graph = chain(length, 2)
    pair = torch.tensor([[0.5, -1.0], [0.3, 1.0]], dtype=torch.float64)
    beliefs = BP(schedule=Sequential(), tolerance=1e-9)(graph, {"unary": torch.zeros(1, 2).double(), "pair": pair})
    assert beliefs.status.exact
    values, right = np.linalg.eig(np.exp(pair.numpy()))
    _, left = np.linalg.eig(np.exp(pair.numpy()).T)
    top = int(np.argmax(values.real))
    product = (left[:, int(np.argmax(values.real))] * right[:, top]).real
    np.testing.assert_allclose(beliefs.marginal(length // 2), product / product.sum(), atol=1e-9)
    per_link = beliefs.log_partition.item() / length
    assert per_link == pytest.approx(math.log(values.real[top]), abs=1e-5)


@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
@pytest.mark.parametrize("scale", [0.01, 3.0])
def test_a_variable_of_degree_ten_thousand(schedule: object, scale: float) -> None:
    leaves = 10_000
    graph = FactorGraph(
        np.full(leaves + 1, 2), {"pair": np.stack([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)], axis=1)}
    )
    generator = torch.Generator().manual_seed(2)
    tables = scale * torch.randn(leaves, 2, 2, generator=generator, dtype=torch.float64)
    beliefs = BP(schedule=schedule)(graph, {"pair": tables})  # type: ignore[arg-type]
    centre = torch.logsumexp(tables, 2).sum(0)
    torch.testing.assert_close(beliefs.marginal(0), torch.softmax(centre, 0), rtol=0, atol=1e-9)
    leaf = torch.logsumexp(torch.log_softmax(centre, 0)[:, None] + torch.log_softmax(tables[7], 1), 0).exp()
    torch.testing.assert_close(beliefs.marginal(8), leaf, rtol=0, atol=1e-9)


@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_potentials_of_ten_thousand(schedule: object) -> None:
    graph, tables = random_tree(5)
    tables = {name: table * 1e4 for name, table in tables.items()}
    beliefs = BP(schedule=schedule)(graph, tables)  # type: ignore[arg-type]
    truth = enumerate_model(graph, tables)
    assert beliefs.status.domain == "log"
    assert beliefs.log_partition.item() == pytest.approx(truth.log_partition, rel=1e-12)
    for variable in range(graph.variables):
        np.testing.assert_allclose(beliefs.marginal(variable), truth.variables[variable], atol=1e-9)


def test_not_converged_is_said() -> None:
    graph = grid(3, 3, 2)
    tables = {"unary": torch.zeros(9, 2).double(), "pair": torch.randn(12, 2, 2).double()}
    with pytest.warns(ConvergenceWarning, match=r"did not converge: after 2 sweeps.*tolerance 1e-06"):
        beliefs = BP(iterations=2)(graph, tables)
    assert not beliefs.status.converged
    assert not beliefs.status.exact
    assert "NOT CONVERGED" in str(beliefs.status)
    assert beliefs.status.messages == 2 * 24
    quiet = BP(iterations=2, tolerance=0)(graph, tables)
    assert not quiet.status.converged


def test_no_factors_and_no_messages_are_exact() -> None:
    graph = FactorGraph([2, 3], {"unary": [[0]]})
    beliefs = BP()(graph, {"unary": torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64)})
    assert beliefs.status.exact
    np.testing.assert_allclose(beliefs.variables, [[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-12)
    assert beliefs.log_partition.item() == pytest.approx(math.log(4.0) + math.log(3.0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"iterations": -1}, "iterations must be a whole number and must not be negative, got -1"),
        ({"tolerance": -1.0}, "tolerance must be a number and must not be negative"),
        ({"tolerance": float("nan")}, "tolerance must be a number and must not be negative"),
        ({"damping": 1.0}, "damping must be at least 0 and below 1, got 1.0"),
        ({"temperature": -0.1}, "temperature must be 0 or a number from"),
        ({"engine": Compiled(1), "schedule": object()}, "schedule must be"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BP(**options)(chain(2), {"unary": torch.zeros(2, 2), "pair": torch.zeros(1, 2, 2)})  # type: ignore[arg-type]


def test_bad_initial_messages() -> None:
    graph = chain(3)
    tables = {"unary": torch.zeros(3, 2), "pair": torch.zeros(2, 2, 2)}
    with pytest.raises(ValueError, match="the graph has 8 slots"):
        BP()(graph, tables, initial=torch.zeros(5))
    with pytest.raises(ValueError, match="NaN"):
        BP()(graph, tables, initial=torch.full((8,), float("nan")))


def test_potentials_as_large_as_numbers_go_raise_no_warning() -> None:
    """Their squares overflow where it is asked whether they are small."""
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    table = torch.tensor([[[0.0, 1e300], [-1e300, 3e299]]], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = BP()(graph, {"pair": table})
    assert found.states.tolist() == [1.0, 0.0, 0.0, 1.0] and float(found.log_partition) == 1e300
