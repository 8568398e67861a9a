"""Piecewise training against its formula, factor by factor in plain NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from loopwise.graph import Evidence, FactorGraph, Role, chain
from loopwise.inference.exact.method import Exact
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.loss.piecewise import Piecewise
from loopwise.notices import ImpossibleError
from oracles.enumeration import enumerate_model
from oracles.strategies import Model, models

Tables = dict[str, Tensor]
Pieces = list[tuple[list[int], np.ndarray]]


def pieces_of(graph: FactorGraph, tables: Tables) -> Pieces:
    return [
        (scope.tolist(), np.broadcast_to(tables[group.name].detach().numpy(), (group.count, *group.shape))[row])
        for group in graph.groups
        for row, scope in enumerate(group.scopes)
    ]


def with_unaries(graph: FactorGraph, pieces: Pieces) -> Pieces:
    """Unary tables divided among the larger factors of their variable, or summed where there is none."""
    unary = [np.zeros(size) for size in graph.cardinalities]
    for scope, table in pieces:
        if len(scope) == 1:
            unary[scope[0]] = unary[scope[0]] + table
    large = [(scope, table) for scope, table in pieces if len(scope) > 1]
    degree = [sum(variable in scope for scope, _ in large) for variable in range(graph.variables)]
    merged = []
    for scope, table in large:
        for axis, variable in enumerate(scope):
            shape = [-1 if place == axis else 1 for place in range(len(scope))]
            table = table + unary[variable].reshape(shape) / degree[variable]
        merged.append((scope, table))
    return merged + [([variable], unary[variable]) for variable in range(graph.variables) if not degree[variable]]


def by_formula(pieces: Pieces, values: np.ndarray, roles: np.ndarray, joint: bool) -> float:
    total = 0.0
    for scope, table in pieces:
        if not any(roles[v] == Role.OUTPUT or (joint and roles[v] == Role.INPUT) for v in scope):
            continue
        gold, all_cells = -np.inf, -np.inf
        for cell in product(*(range(size) for size in table.shape)):
            wrong = [v for v, value in zip(scope, cell, strict=True) if value != values[v]]
            if all(roles[v] in (Role.HIDDEN, Role.MISSING) for v in wrong):
                gold = np.logaddexp(gold, table[cell])
            if joint or all(roles[v] != Role.INPUT for v in wrong):
                all_cells = np.logaddexp(all_cells, table[cell])
        total += all_cells - gold
    return total


def possible(graph: FactorGraph, tables: Tables) -> np.ndarray:
    return enumerate_model(graph, {name: table.detach().numpy() for name, table in tables.items()}).best


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@given(model=models(zeros=True, largest_cardinality=3), seed=st.integers(0, 1000))
def test_formula(joint: bool, share: bool, model: Model, seed: int) -> None:
    graph, tables = model
    assume(tables)
    roles = np.random.default_rng(seed).integers(0, 4, graph.variables)
    roles[0] = Role.OUTPUT
    values = possible(graph, tables)
    leaves = {name: table.requires_grad_() for name, table in tables.items()}
    value = Piecewise(joint, share)(None, graph, leaves, Evidence.of(values, roles))
    pieces = pieces_of(graph, tables)
    pieces = with_unaries(graph, pieces) if share else pieces
    assert value.item() == pytest.approx(by_formula(pieces, values, roles, joint), abs=1e-9)
    if value.requires_grad:
        slopes = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)
        assert all(bool(slope.isfinite().all()) for slope in slopes)  # -inf cells give no NaN


def mixed_model(seed: int = 0) -> Model:
    rng = np.random.default_rng(seed)
    cards = [2, 3, 4, 2, 3]
    scopes = [[], [0], [3], [3], [0, 1], [0, 1], [1, 0], [1, 2, 3], [3, 2, 4], [0, 4]]
    factors = [(scope, rng.normal(size=[cards[member] for member in scope])) for scope in scopes]
    graph, tables = FactorGraph.from_factors(cards, factors)
    return graph, {name: torch.tensor(table) for name, table in tables.items()}


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_batches_and_roles_by_example(batched: bool, share: bool) -> None:
    graph, tables = mixed_model()
    rng = np.random.default_rng(1)
    values, roles = rng.integers(0, graph.cardinalities, (2, 3, 5)), rng.integers(0, 4, (2, 3, 5))
    if batched:
        tables = {name: table + torch.tensor(rng.normal(size=(2, 1, *table.shape))) for name, table in tables.items()}
    evidence = Evidence.of(values, roles)
    each = Piecewise(share_unaries=share).per_example(None, graph, tables, evidence)
    assert each.shape == (2, 3)
    for place in np.ndindex(2, 3):
        pieces = pieces_of(graph, {name: table[place[0], 0] if batched else table for name, table in tables.items()})
        pieces = with_unaries(graph, pieces) if share else pieces
        expected = by_formula(pieces, values[place], roles[place], joint=False)
        assert each[place].item() == pytest.approx(expected, abs=1e-10)
    mean = Piecewise(share_unaries=share)(None, graph, tables, evidence)
    assert mean.item() == pytest.approx(each.mean().item())


@pytest.mark.parametrize("share", [False, True])
def test_gradients_of_both_orders(share: bool) -> None:
    graph, tables = mixed_model()
    rng = np.random.default_rng(3)
    evidence = Evidence.of(rng.integers(0, graph.cardinalities, (2, 5)), rng.integers(0, 4, (2, 5)))
    names = list(tables)

    def objective(*given: Tensor) -> Tensor:
        shares = Piecewise(share_unaries=share)
        return shares.per_example(None, graph, dict(zip(names, given, strict=True)), evidence)

    leaves = tuple(table.requires_grad_() for table in tables.values())
    assert torch.autograd.gradcheck(objective, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(objective, leaves, fast_mode=True)


@pytest.mark.parametrize("share", [False, True])
@given(model=models(largest_cardinality=3), seed=st.integers(0, 1000))
def test_upper_bound_on_the_likelihood(share: bool, model: Model, seed: int) -> None:
    """With everything observed and every output in some factor."""
    graph, tables = model
    roles = np.random.default_rng(seed).integers(0, 2, graph.variables)
    touched = {int(variable) for group in graph.groups for variable in group.scopes.reshape(-1)}
    roles[[variable for variable in range(graph.variables) if variable not in touched]] = Role.INPUT
    assume((roles == Role.OUTPUT).any())
    evidence = Evidence.of(possible(graph, tables), roles)
    exact = SurrogateLikelihood()(Exact(), graph, tables, evidence).item()
    assert Piecewise(share_unaries=share)(None, graph, tables, evidence).item() >= exact - 1e-9


def test_tied_tables() -> None:
    graph = chain(4, states=3)
    rng = np.random.default_rng(0)
    tables = {"unary": torch.tensor(rng.normal(size=(4, 3))), "pair": torch.tensor(rng.normal(size=(3, 3)))}
    values, roles = rng.integers(0, 3, (5, 4)), np.array([1, 0, 2, 1])
    tied = Piecewise()(None, graph, tables, Evidence.of(values, roles))
    expected = [by_formula(pieces_of(graph, tables), row, roles, joint=False) for row in values]
    assert tied.item() == pytest.approx(np.mean(expected), abs=1e-10)


def test_zeros_around_unscored_factors_do_no_harm() -> None:
    """A pair that the inputs of one example contradict says nothing there."""
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    pair = torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]], dtype=torch.float64).requires_grad_()
    evidence = Evidence.of([[0, 0], [1, 0], [1, 0]], [[1, 0], [0, 0], [0, 2]])
    value = Piecewise()(None, graph, {"pair": pair}, evidence)
    (slope,) = torch.autograd.grad(value, [pair])
    assert value.item() == 0
    assert bool(slope.isfinite().all())


def test_bad_input_is_named() -> None:
    graph = chain(3)
    hard = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    tables = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": hard}
    with pytest.raises(ImpossibleError, match=r"factor 0 of group 'pair' forbids .* \[0, 1\] \(example 1\)"):
        Piecewise()(None, graph, tables, Evidence.of([[0, 0, 0], [0, 1, 1]], [1, 1, 1]))
    with pytest.raises(ValueError, match="no OUTPUT"):
        Piecewise()(None, graph, tables, Evidence.of([0, 0, 0], [0, 0, 2]))
    with pytest.raises(ValueError, match="value 7; it has values 0 to 1"):
        Piecewise()(None, graph, tables, Evidence.of([0, 7, 0], [0, 1, 0]))
