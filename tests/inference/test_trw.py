"""Tree-reweighted BP: bounds, convergence, appearance probabilities, concavity."""

from __future__ import annotations

import pytest
import torch

from loopwise.inference.messages.message_passing import BP, TRW
from oracles.enumeration import enumerate_model
from oracles.trw_cases import GRAPHS, normal_tables


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_valid_rho_gives_an_upper_bound(name: str, scale: float) -> None:
    graph = GRAPHS[name]
    tables = normal_tables(graph, 3, scale)
    beliefs = TRW(iterations=5000, tolerance=1e-9, damping=0.5)(graph, tables)
    truth = enumerate_model(graph, {key: value.numpy() for key, value in tables.items()})
    assert beliefs.log_partition.item() >= truth.log_partition - 1e-7
    assert "upper bound" in str(beliefs.status)
    # consistent marginals: every factor belief agrees with its variables'
    for group in graph.groups:
        for row, scope in enumerate(group.scopes):
            for axis, variable in enumerate(scope):
                others = tuple(k for k in range(group.arity) if k != axis)
                inside = beliefs.factor(group.name)[row].sum(others) if others else beliefs.factor(group.name)[row]
                torch.testing.assert_close(inside, beliefs.marginal(int(variable)), rtol=0, atol=1e-6)


def test_rho_one_is_bp() -> None:
    graph = GRAPHS["random"]
    tables = normal_tables(graph, 4)
    reweighted = TRW(rho=1.0, iterations=3, tolerance=0)(graph, tables)
    plain = BP(iterations=3, tolerance=0)(graph, tables)
    assert torch.equal(reweighted.states, plain.states)
    torch.testing.assert_close(reweighted.log_partition, plain.log_partition)


def test_fixed_point_is_unique_when_concave() -> None:
    graph = GRAPHS["grid"]
    tables = normal_tables(graph, 5, 2.0)
    solver = TRW(rho=0.5, iterations=3000, tolerance=1e-11, damping=0.5)
    first = solver(graph, tables)
    generator = torch.Generator().manual_seed(6)
    start = torch.log_softmax(3 * torch.randn(12 * 2, 2, generator=generator, dtype=torch.float64), 1).reshape(-1)
    second = solver(graph, tables, initial=start)
    torch.testing.assert_close(first.states, second.states, rtol=0, atol=1e-8)
