"""Pseudo-likelihood against conditionals taken from the enumerated joint distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from loopwise.graph import Evidence, FactorGraph, Role, chain
from loopwise.inference.exact.method import Exact
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.loss.pseudo_likelihood import PseudoLikelihood
from loopwise.notices import ImpossibleError
from loopwise.potentials import TablePotentials
from oracles.enumeration import enumerate_model
from oracles.strategies import Model, models

Tables = dict[str, Tensor]


def brute_force(graph: FactorGraph, tables: Tables, values: np.ndarray, scored: np.ndarray) -> float:
    """Minus the sum of log p(x_i | rest), each read off the joint distribution."""
    model = enumerate_model(graph, {name: table.detach().numpy() for name, table in tables.items()})
    total = 0.0
    for variable in np.flatnonzero(scored):
        others = np.arange(graph.variables) != variable
        line = (model.configurations[:, others] == values[others]).all(1)
        gold = line & (model.configurations[:, variable] == values[variable])
        total += np.logaddexp.reduce(model.scores[line]) - model.scores[gold].item()
    return total


def mixed_model(seed: int = 0) -> Model:
    """Arity 0 to 3, mixed cardinalities, two factors on one scope and a third on its reverse."""
    rng = np.random.default_rng(seed)
    cards = [2, 3, 4, 2, 3]
    scopes = [[], [0], [3], [3], [0, 1], [0, 1], [1, 0], [1, 2, 3], [3, 2, 4], [0, 4], [4, 2]]
    factors = [(scope, rng.normal(size=[cards[member] for member in scope])) for scope in scopes]
    graph, tables = FactorGraph.from_factors(cards, factors)
    return graph, {name: torch.tensor(table) for name, table in tables.items()}


@pytest.mark.parametrize("joint", [False, True])
@given(model=models(zeros=True, largest_cardinality=3), seed=st.integers(0, 1000))
def test_sum_of_conditionals(joint: bool, model: Model, seed: int) -> None:
    graph, tables = model
    assume(tables)
    rng = np.random.default_rng(seed)
    values = enumerate_model(graph, {name: table.numpy() for name, table in tables.items()}).best
    roles = rng.integers(0, 2, graph.variables)
    roles[0] = Role.OUTPUT
    leaves = {name: table.requires_grad_() for name, table in tables.items()}
    value = PseudoLikelihood(joint)(None, graph, leaves, Evidence.of(values, roles))
    scored = np.ones(graph.variables, bool) if joint else roles == Role.OUTPUT
    assert value.item() == pytest.approx(brute_force(graph, tables, values, scored), abs=1e-9)
    if value.requires_grad:
        slopes = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)
        assert all(bool(slope.isfinite().all()) for slope in slopes)  # -inf cells give no NaN


@pytest.mark.parametrize("batched", [False, True])
def test_batches_and_roles_by_example(batched: bool) -> None:
    graph, tables = mixed_model()
    rng = np.random.default_rng(1)
    values, roles = rng.integers(0, graph.cardinalities, (2, 3, 5)), rng.integers(0, 2, (2, 3, 5))
    if batched:
        tables = {name: table + torch.tensor(rng.normal(size=(2, 1, *table.shape))) for name, table in tables.items()}
    evidence = Evidence.of(values, roles)
    each = PseudoLikelihood().per_example(None, graph, tables, evidence)
    assert each.shape == (2, 3)
    for place in np.ndindex(2, 3):
        own = {name: table[place[0], 0] if batched else table for name, table in tables.items()}
        expected = brute_force(graph, own, values[place], roles[place] == Role.OUTPUT)
        assert each[place].item() == pytest.approx(expected, abs=1e-10)
    assert PseudoLikelihood()(None, graph, tables, evidence).item() == pytest.approx(each.mean().item())


def test_one_observation_many_tables() -> None:
    """The batch may be the potentials' alone."""
    graph, tables = mixed_model()
    rng = np.random.default_rng(2)
    tables = {name: torch.tensor(rng.normal(size=(4, *table.shape))) for name, table in tables.items()}
    values = rng.integers(0, graph.cardinalities)
    each = PseudoLikelihood().per_example(None, graph, tables, Evidence.of(values, [1, 0, 1, 1, 0]))
    expected = [
        brute_force(graph, {n: t[k] for n, t in tables.items()}, values, np.array([1, 0, 1, 1, 0])) for k in range(4)
    ]
    np.testing.assert_allclose(each, expected, atol=1e-10)


def test_gradients_of_both_orders() -> None:
    graph, tables = mixed_model()
    rng = np.random.default_rng(3)
    evidence = Evidence.of(rng.integers(0, graph.cardinalities, (3, 5)), rng.integers(0, 2, (3, 5)))
    names = list(tables)

    def objective(*given: Tensor) -> Tensor:
        return PseudoLikelihood().per_example(None, graph, dict(zip(names, given, strict=True)), evidence)

    leaves = tuple(table.requires_grad_() for table in tables.values())
    assert torch.autograd.gradcheck(objective, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(objective, leaves, fast_mode=True)


def test_tied_tables() -> None:
    graph = chain(4, states=3)
    rng = np.random.default_rng(0)
    tables = {"unary": torch.tensor(rng.normal(size=(4, 3))), "pair": torch.tensor(rng.normal(size=(3, 3)))}
    values = rng.integers(0, 3, (5, 4))
    leaves = {name: table.requires_grad_() for name, table in tables.items()}
    roles = [1, 0, 0, 1]  # so that some factors of the group have no output
    tied = PseudoLikelihood()(None, graph, leaves, Evidence.of(values, roles))
    full = {"unary": tables["unary"], "pair": tables["pair"].expand(3, 3, 3)}
    expected = np.mean([brute_force(graph, full, row, np.array(roles) == 1) for row in values])
    assert tied.item() == pytest.approx(expected, abs=1e-10)
    tied.backward()
    loose = PseudoLikelihood()(None, graph, full, Evidence.of(values, roles))
    slope = torch.autograd.grad(loose, tables["pair"])[0]
    torch.testing.assert_close(tables["pair"].grad, slope)


def test_one_output_is_the_likelihood() -> None:
    """With a single output there is nothing pseudo about it."""
    graph, tables = mixed_model()
    evidence = Evidence.of([1, 2, 3, 0, 1], [0, 0, 1, 0, 0])
    assert PseudoLikelihood()(None, graph, tables, evidence).item() == pytest.approx(
        SurrogateLikelihood()(Exact(), graph, tables, evidence).item(), abs=1e-10
    )


def test_hidden_variables_matter_only_beside_outputs() -> None:
    graph = chain(4)
    potentials = TablePotentials.random(graph, seed=0)
    with pytest.raises(
        ValueError, match=r"factor 1 of group 'pair' joins output 1 with variable 2, which .* \(example 1\)"
    ):
        PseudoLikelihood()(None, graph, potentials, Evidence.of(np.zeros((2, 4), int), [[0, 1, 0, 0], [0, 1, 3, 0]]))
    apart = PseudoLikelihood()(None, graph, potentials, Evidence.of([0, 0, 0, 0], [1, 1, 0, 2]))
    values = np.zeros(4, int)
    tables = {name: table.detach() for name, table in potentials().items()}
    assert apart.item() == pytest.approx(brute_force(graph, tables, values, np.array([1, 1, 0, 0])), abs=1e-10)


def test_zeros_around_unscored_variables_do_no_harm() -> None:
    """Variable 2 is an output of one example only; in the other its conditional has no possible value."""
    graph = FactorGraph([2, 2, 2], {"pair": [[0, 2], [1, 2]]})
    hard = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    tables = {"pair": torch.stack([hard, hard]).requires_grad_()}
    evidence = Evidence.of([[0, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 0]])
    value = PseudoLikelihood()(None, graph, tables, evidence)
    (slope,) = torch.autograd.grad(value, list(tables.values()))
    assert value.item() == 0
    assert bool(slope.isfinite().all())


def test_bad_input_is_named() -> None:
    graph = chain(3)
    hard = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    tables = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": hard}
    with pytest.raises(ImpossibleError, match=r"variable 0 forbid its value 0 beside .* \(example 1\)"):
        PseudoLikelihood()(None, graph, tables, Evidence.of([[0, 0, 0], [0, 1, 1]], [1, 1, 1]))
    with pytest.raises(ValueError, match="no OUTPUT"):
        PseudoLikelihood()(None, graph, tables, Evidence.of([0, 0, 0], [0, 0, 0]))
    with pytest.raises(ValueError, match="value 7; it has values 0 to 1"):
        PseudoLikelihood()(None, graph, tables, Evidence.of([0, 7, 0], [0, 1, 0]))
