"""Pair kernels of every kind, and what stands side by side."""

from __future__ import annotations

import pytest
import torch

from loopwise.graph import grid, random_mrf
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.schedules import Flooding, Residual
from oracles.engine_cases import assert_same, normal_tables


@pytest.mark.parametrize("states", [2, 4, 7])
def test_pair_kernels_of_every_kind(states: int, literal_sizes: range) -> None:
    """Literal sizes and the runtime one; more factors than lanes."""
    assert (states in literal_sizes) == (states < 7)
    graph = random_mrf(12, 40, states, unary=True, seed=0)
    assert_same(BP, graph, normal_tables(graph, 6), iterations=3)
    assert_same(TRW, graph, normal_tables(graph, 6), iterations=3, rho=0.5)


@pytest.mark.parametrize("schedule", [Flooding(), Residual()], ids=lambda schedule: type(schedule).__name__)
def test_few_examples_side_by_side(schedule: object) -> None:
    """Batches that do not fill the lanes run in one call, each example by itself; here each stops where it would."""
    graph = grid(4, 5)
    tables = normal_tables(graph, 12, 5)
    tables["pair"] = tables["pair"][0]
    assert_same(BP, graph, tables, iterations=3, schedule=schedule)
    options = {"iterations": 300, "tolerance": 1e-6, "schedule": schedule, "engine": Compiled(threads=1)}
    whole = BP(**options)(graph, tables)  # type: ignore[arg-type]
    for example in range(5):
        alone = BP(**options)(graph, {**tables, "unary": tables["unary"][example]})  # type: ignore[arg-type]
        assert torch.equal(whole.states[example], alone.states)
        assert int(whole.status.sweeps[example]) == int(alone.status.sweeps)
