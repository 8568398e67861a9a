"""Runs of chosen messages: against message by message in Python, engine against engine, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from oracles.chosen_messages import chosen_beliefs


def mixed_graph() -> lw.FactorGraph:
    """Two, three and four values; pairs, a triple, unaries of some variables."""
    scopes = {"unary": [[0], [2]], "a": [[0, 1], [1, 2]], "triple": [[0, 2, 3]], "b": [[2, 3]]}
    return lw.FactorGraph([2, 3, 2, 4], {name: np.array(rows) for name, rows in scopes.items() if name != "a"} | {
        "a": np.array([[0, 1]]), "c": np.array([[1, 2]])})  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beliefs_are_those_of_the_chosen_messages(seed: int) -> None:
    graph = mixed_graph()
    potentials = lw.TablePotentials.random(graph, seed=seed)
    tables = {name: table.detach() for name, table in potentials().items()}
    sent = np.random.default_rng(seed).random((3, graph.layout.edges)) < 0.6
    wanted = chosen_beliefs(graph, {name: table.numpy() for name, table in tables.items()}, sent)
    found = budget.ChosenMessages(lw.BP(), graph, sent)(graph, tables)
    assert found.status.engine == "compiled" and found.status.messages == int(sent.sum())
    for variable, belief in enumerate(wanted):
        np.testing.assert_allclose(found.marginal(variable).numpy(), belief, atol=1e-12)
    trained = budget.ChosenMessages(lw.BP(), graph, sent)(graph, potentials)
    assert trained.status.engine == "reference"
    torch.testing.assert_close(trained.states.detach(), found.states, rtol=0, atol=1e-12)


def test_all_messages_are_bp() -> None:
    graph, batch = lw.grid(3, 4), 70  # more examples than stand side by side
    tables = {
        "unary": torch.randn(batch, 12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        "pair": torch.randn(batch, 17, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
    }
    sent = np.ones((4, graph.layout.edges), dtype=bool)
    evidence = np.full(12, -1)
    evidence[[0, 5]] = 1
    for seen in (None, evidence):
        found = budget.ChosenMessages(lw.BP(), graph, sent)(graph, tables, seen)
        wanted = lw.BP(iterations=4, tolerance=0)(graph, tables, seen)
        torch.testing.assert_close(found.states, wanted.states, rtol=0, atol=1e-12)
        assert found.status.messages == wanted.status.messages
        torch.testing.assert_close(found.factor("pair"), wanted.factor("pair"), rtol=0, atol=1e-12)
        torch.testing.assert_close(found.log_partition, wanted.log_partition, rtol=0, atol=1e-10)


@pytest.mark.parametrize("count", [1, 2, 8, 9, 33])
@pytest.mark.parametrize("shared", [True, False])
def test_examples_side_by_side_are_examples_alone(count: int, shared: bool) -> None:
    """Lanes of one, eight and thirty-two, the last block full or not; tables for all, and of each example."""
    graph, generator = mixed_graph(), torch.Generator().manual_seed(count)
    drawn = {
        group.name: torch.randn(count, group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }
    tables = {name: table[0] if shared and name != "unary" else table for name, table in drawn.items()}
    sent = np.random.default_rng(count).random((3, graph.layout.edges)) < 0.6
    method = budget.ChosenMessages(lw.BP(), graph, sent)
    together = method(graph, tables)
    assert together.status.engine == "compiled" and together.status.residual.shape == (count,)
    for example in range(count):
        own = {name: table if table.ndim < drawn[name].ndim else table[example] for name, table in tables.items()}
        wanted = chosen_beliefs(graph, {name: table.numpy() for name, table in own.items()}, sent)
        for variable, belief in enumerate(wanted):
            np.testing.assert_allclose(together.marginal(variable)[example].numpy(), belief, atol=1e-12)
        alone = method(graph, own)
        assert float(alone.status.residual) == pytest.approx(float(together.status.residual[example]), abs=1e-12)


def test_gradients_by_differences() -> None:
    graph = lw.grid(2, 3)
    potentials = lw.TablePotentials.random(graph, seed=0)
    sent = np.random.default_rng(0).random((3, graph.layout.edges)) < 0.7
    method = budget.ChosenMessages(lw.BP(), graph, sent)
    value = method(graph, potentials).states.square().sum()
    table = list(potentials.parameters())[-1]
    (slope,) = torch.autograd.grad(value, [table])
    direction = torch.randn(table.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        values = []
        for step in (1e-6, -1e-6):
            table += step * direction
            values.append(float(method(graph, potentials).states.square().sum()))
            table -= step * direction
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(float((slope * direction).sum()), abs=1e-7)


def test_impossible_values_take_the_other_way() -> None:
    graph = lw.chain(3)
    pair = torch.zeros(2, 2, 2, dtype=torch.float64)
    pair[0, 0, 1] = -torch.inf
    tables = {"unary": torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64), "pair": pair}
    found = budget.ChosenMessages(lw.BP(), graph, np.ones((2, 4), dtype=bool))(graph, tables)
    wanted = lw.BP(iterations=2, tolerance=0)(graph, tables)
    assert found.status.engine == "reference"
    torch.testing.assert_close(found.states, wanted.states, rtol=0, atol=1e-12)


def test_numbers_beyond_the_kernel_take_the_other_way() -> None:
    graph = lw.chain(3)
    pair = torch.tensor([[0.0, -900.0], [-900.0, 0.0]], dtype=torch.float64)
    tables = {"unary": torch.tensor([[0.0, 800.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64), "pair": pair}
    found = budget.ChosenMessages(lw.BP(), graph, np.ones((2, 4), dtype=bool))(graph, tables)
    wanted = lw.BP(iterations=2, tolerance=0)(graph, tables)
    torch.testing.assert_close(found.states, wanted.states, rtol=0, atol=1e-9)


@pytest.mark.parametrize("threshold", [-50.0, -0.3, 50.0])
def test_a_policy_stops_examples_as_it_stops_bp(threshold: float) -> None:
    graph, batch = lw.grid(3, 3), 80
    generator = torch.Generator().manual_seed(0)
    scale = torch.linspace(0.05, 2.0, batch, dtype=torch.float64)[:, None, None, None]
    tables = {
        "unary": torch.randn(batch, 9, 2, generator=generator, dtype=torch.float64),
        "pair": scale * torch.randn(12, 2, 2, generator=generator, dtype=torch.float64),
    }
    policy = budget.Policy((budget.Bias(), budget.LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([threshold - 1.0, -1.0], dtype=torch.float64))
    sent = np.ones((6, graph.layout.edges), dtype=bool)
    wanted = budget.Stopping(lw.BP(iterations=6), policy)(graph, tables)
    found = budget.ChosenMessages(lw.BP(), graph, sent, policy)(graph, tables)
    assert torch.equal(found.status.sweeps, wanted.status.sweeps)
    torch.testing.assert_close(found.states, wanted.states, rtol=0, atol=1e-12)
    assert found.status.messages == wanted.status.messages
    if threshold == -0.3:
        assert len(found.status.sweeps.unique()) > 1


def test_costs_are_those_of_messages_that_are_sent() -> None:
    graph = lw.grid(2, 3)
    sent = np.random.default_rng(1).random((3, graph.layout.edges)) < 0.5
    method = budget.ChosenMessages(lw.BP(), graph, sent)
    examples = lw.Examples.of(graph, np.zeros((4, 6), dtype=int), [lw.Role.INPUT, *[lw.Role.OUTPUT] * 5])
    system = lw.System(lw.TablePotentials.random(graph, seed=0), method)
    edges = graph.layout
    factor_sees = {int(edges.edge_factor[e]) for e in np.flatnonzero(edges.edge_variable == 0)}
    wanted = sum(
        1 for sweep in range(3) for e in range(edges.edges)
        if sent[sweep, e] and int(edges.edge_factor[e]) not in factor_sees
    )  # fmt: skip
    assert budget.spend(system, examples).cost == wanted
    assert system.beliefs(examples).status.messages == 4 * wanted
    assert budget.spend(system, examples, budget.MessageCost(sliced=False)).cost == int(sent.sum())
    assert budget.spend(system, examples, budget.CellCost(sliced=False)).cost == 4 * int(sent.sum())


def test_what_cannot_be_chosen_is_refused() -> None:
    graph = lw.chain(3)
    with pytest.raises(ValueError, match="each of the 4 edges"):
        budget.ChosenMessages(lw.BP(), graph, np.ones((2, 3), dtype=bool))
    with pytest.raises(ValueError, match="flooding"):
        budget.ChosenMessages(lw.BP(schedule=lw.Residual()), graph, np.ones((2, 4), dtype=bool))
    method = budget.ChosenMessages(lw.BP(), graph, np.ones((2, 4), dtype=bool))
    with pytest.raises(ValueError, match="do not fit"):
        method(lw.chain(4), lw.TablePotentials.random(lw.chain(4), seed=0))
