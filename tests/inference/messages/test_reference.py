"""The reference engine: any counting numbers, derivatives of truncated runs."""

from __future__ import annotations

import pytest
import torch

from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.counting import ExplicitCounting
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from oracles.engine_cases import assert_same, mixed_graph, normal_tables


def test_any_counting_numbers_agree() -> None:
    graph = mixed_graph()
    factor = {
        group.name: torch.rand(group.count, generator=torch.Generator().manual_seed(3)).numpy() + 0.2
        for group in graph.groups
        if group.arity > 1
    }
    assert_same(BP, graph, normal_tables(graph, 2), iterations=3, counting=ExplicitCounting(factor, 0.3))


@pytest.mark.parametrize("engine", [Reference(), Compiled()], ids=["reference", "compiled"])
def test_both_differentiate_the_truncated_run(engine: object) -> None:
    graph = mixed_graph()
    tables = {name: table.requires_grad_() for name, table in normal_tables(graph, 12).items()}
    names = list(tables)

    def loss(*values: torch.Tensor) -> torch.Tensor:
        solver = BP(iterations=3, tolerance=0, damping=0.2, engine=engine)  # type: ignore[arg-type]
        beliefs = solver(graph, dict(zip(names, values, strict=True)))
        return beliefs.states.square().sum() + beliefs.log_partition + beliefs.factor("quad").square().sum()

    assert torch.autograd.gradcheck(loss, tuple(tables.values()))
