"""Flooding with messages as vectors: as with single numbers, there and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.kernel_run import Options
from loopwise.inference.messages.kernels.pair_floods import transposed_tables
from loopwise.inference.messages.kernels.plan import PairFlood
from loopwise.inference.messages.part_run import PartRun, PartStorage


@pytest.mark.usefixtures("literal_sizes")
@pytest.mark.parametrize("states", [2, 5])
def test_values_and_gradients_are_those_of_single_numbers(states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    union = lw.graph.union([lw.grid(3, 3, states), lw.chain(4, states), lw.grid(2, 4, states)])
    tables = {g.name: torch.tensor(rng.normal(size=(g.count, *g.shape))) for g in union.graph.groups}
    with torch.no_grad():
        tables["pair"][0, 0, 1] = -torch.inf  # a message may be forbidden a value
    tables = {name: table.requires_grad_() for name, table in tables.items()}
    schedules, found, schedule = [], [], PartRun.schedule

    def noted(self: PartRun, options: Options) -> object:
        schedules.append(schedule(self, options))
        return schedules[-1]

    monkeypatch.setattr(PartRun, "schedule", noted)
    for vectors in (True, False):
        if not vectors:
            monkeypatch.setattr(PartRun, "_as_vectors", lambda self, options: False)
        beliefs = lw.BP(iterations=80)(union.graph, tables)
        loss = beliefs.states.square().sum() + beliefs.messages.exp().square().sum()
        found.append([beliefs.states, *torch.autograd.grad(loss, list(tables.values()))])
        assert all(isinstance(each, PairFlood) == vectors for each in schedules)
        schedules.clear()
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_tables_are_transposed_group_by_group() -> None:
    graph = lw.FactorGraph([3] * 4, {"a": [[0, 1], [1, 2]], "b": [[2, 3]]})
    graph.part_start = np.array([0, 4])
    storage, rng = PartStorage.of_union(graph.layout), np.random.default_rng(1)
    tables = [torch.tensor(rng.normal(size=(count, 9))) for count in (2, 1)]
    theta, groups = storage.pack_tables(tables, 1, 0.0)
    plan = storage.plan(groups, np.ones(6), 0)
    wanted = torch.cat(tables).reshape(3, 3, 3).transpose(1, 2).reshape(-1)
    np.testing.assert_array_equal(transposed_tables.py_func(plan, theta, (0, 0, 0)), wanted)
