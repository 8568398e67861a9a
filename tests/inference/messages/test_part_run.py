"""Unions in one kernel call: the same with any number of threads, and a status for each part."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.kernels import plan as columns
from loopwise.inference.messages.part_run import PartRun, PartStorage
from loopwise.inference.messages.storage import Arrangement, Storage
from loopwise.notices import ImpossibleError


def rings(count: int) -> tuple[lw.graph.Union, dict[str, torch.Tensor]]:
    union, rng = lw.graph.union([lw.grid(2, size) for size in range(2, 2 + count)]), np.random.default_rng(0)
    tables = {g.name: torch.tensor(rng.normal(size=(g.count, *g.shape))) for g in union.graph.groups}
    return union, {name: table.requires_grad_() for name, table in tables.items()}


@pytest.mark.usefixtures("literal_pairs")
@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
def test_threads_share_the_parts(schedule: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwise.inference.messages.kernel_run.WORTH_A_THREAD", 0)
    union, tables = rings(7)
    found, shares = [], []
    whole = PartRun.shares
    monkeypatch.setattr(PartRun, "shares", lambda self: shares.append(whole(self)) or shares[-1])
    for threads in (1, 3):
        beliefs = lw.BP(iterations=60, schedule=schedule, engine=Compiled(threads))(union.graph, tables)  # type: ignore[arg-type]
        gradient = torch.autograd.grad(beliefs.states.square().sum(), list(tables.values()))
        found.append([beliefs.states, *gradient])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)
    assert {len(share) for share in shares} == {1, 3}
    for share in shares:
        assert [part for span in share for part in range(span.first, span.last)] == list(range(7))


def test_the_part_without_a_configuration_is_named() -> None:
    union, tables = rings(3)
    with torch.no_grad():
        tables["pair"][union.rows[1]["pair"][1]] = -torch.inf
    with pytest.raises(ImpossibleError, match="example 1"):
        lw.BP(iterations=20)(union.graph, tables)


def test_single_precision() -> None:
    union, tables = rings(4)
    given = {name: table.detach().float() for name, table in tables.items()}
    found = lw.BP(iterations=60, tolerance=1e-4)(union.graph, given)
    alone = [
        lw.BP(iterations=60, tolerance=1e-4)(part, mine)
        for part, mine in zip(union.parts, union.split(given), strict=True)
    ]
    assert found.states.dtype == torch.float32
    assert found.status.sweeps.tolist() == [int(each.status.sweeps) for each in alone]
    torch.testing.assert_close(found.states, torch.cat([each.states for each in alone]), rtol=0, atol=1e-6)


def union() -> lw.graph.Union:
    """Parts with factors of two and three variables, one without any."""
    first = lw.FactorGraph([2, 3, 2], {"pair": [[0, 1], [2, 1]], "three": [[0, 1, 2]]})
    second = lw.FactorGraph([2, 3], {"pair": [[0, 1]], "three": np.zeros((0, 3), dtype=int)})
    return lw.graph.union([first, lw.FactorGraph([4], {"pair": np.zeros((0, 2), dtype=int)}), second, first])


def test_each_part_stands_as_it_would_alone() -> None:
    made = union()
    storage = PartStorage.of_union(made.graph.layout)
    plan = storage.plan(storage.group_rows([(True, 0), (True, 0)], 1), np.ones(made.graph.layout.edges), 0)
    rows = plan.groups.reshape(len(made.parts), -1, columns.COLUMNS)
    for number, part in enumerate(made.parts):
        alone = Storage.of(part.layout, Arrangement.PLAIN)
        first, last = made.graph.part_start[number] + number, made.graph.part_start[number + 1] + number + 1  # type: ignore[index]
        assert plan.state_start[first:last].tolist() == part.layout.state_start.tolist()
        edges = slice(plan.edge_start[first], plan.edge_start[last - 1])
        assert plan.edge_base[edges].tolist() == alone.edge_base.tolist()
        assert plan.edge_member[edges].tolist() == alone.edge_member.tolist()
        assert storage.cuts.message[number + 1] - storage.cuts.message[number] == alone.slots
        counts = [
            part.group(name).count if any(g.name == name for g in part.groups) else 0 for name in ("pair", "three")
        ]
        assert rows[number, :, columns.MEMBERS].tolist() == counts


def test_tables_of_each_part_and_example_are_found() -> None:
    made = union()
    storage, rng = PartStorage.of_union(made.graph.layout), np.random.default_rng(0)
    shared = torch.tensor(rng.normal(size=(made.graph.group("pair").count, 6)))
    own = torch.tensor(rng.normal(size=(2, made.graph.group("three").count, 12)))
    theta, groups = storage.pack_tables([shared, own], 2, 0.0)
    rows = groups.reshape(2, len(made.parts), 2, columns.COLUMNS)
    for example in range(2):
        for part, places in enumerate(made.rows):
            for number, (name, table) in enumerate((("pair", shared), ("three", own[example]))):
                mine = table[places[name][1]].reshape(-1).numpy() if name in places else np.zeros(0)
                start = int(rows[example, part, number, columns.TABLE_START])
                np.testing.assert_array_equal(theta[start : start + len(mine)], mine)


def test_messages_there_and_back() -> None:
    layout = union().graph.layout
    storage = PartStorage.of_union(layout)
    messages = torch.arange(2.0 * layout.slots).reshape(2, -1)
    packed = storage.pack_messages(messages, 0.0)
    torch.testing.assert_close(storage.unpack_messages(packed, 2), messages)
    uniform = storage.unpack_messages(storage.uniform_messages(2, False, np.dtype(np.float64)), 2)
    sizes = torch.tensor(layout.graph.cardinalities[layout.edge_variable])
    torch.testing.assert_close(uniform[1], torch.repeat_interleave(1 / sizes.double(), sizes))


def test_factors_that_do_not_stand_part_by_part_are_refused() -> None:
    graph = lw.FactorGraph([2] * 4, {"pair": [[2, 3], [0, 1]]})
    graph.part_start = np.array([0, 2, 4])
    with pytest.raises(ValueError, match=r"lw\.graph\.union"):
        PartStorage.of_union(graph.layout)


@pytest.mark.parametrize("scopes", [{}, {"pair": np.zeros((0, 2), dtype=int)}], ids=["no group", "an empty group"])
@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
def test_a_union_in_which_no_message_is_sent(schedule: object, scopes: dict[str, np.ndarray]) -> None:
    graphs = [lw.FactorGraph([2] * size, {"own": np.arange(size)[:, None], **scopes}) for size in (1, 3)]
    own = torch.tensor(np.random.default_rng(0).normal(size=(4, 2)), requires_grad=True)
    tables = {"own": own, **{name: torch.zeros(0, 2, 2, dtype=own.dtype) for name in scopes}}
    beliefs = lw.BP(tolerance=1e-6, schedule=schedule)(lw.graph.union(graphs).graph, tables)  # type: ignore[arg-type]
    shares = own.softmax(-1)
    torch.testing.assert_close(beliefs.states, shares.reshape(-1), rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(beliefs.states.square().sum() + beliefs.log_partition.sum(), own)
    (wanted,) = torch.autograd.grad(shares.square().sum() + own.logsumexp(-1).sum(), own)
    torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-12)
