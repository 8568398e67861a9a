"""Engine against engine: the compiled one must give what the plain-torch one gives, to rounding."""

from __future__ import annotations

import pytest
import torch

from loopwise.graph import FactorGraph, chain, grid
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, TRW
from loopwise.inference.messages.reference import Reference
from loopwise.inference.messages.schedules import Flooding, Residual, Sequential
from loopwise.notices import ImpossibleError, LoopwiseWarning
from oracles.engine_cases import assert_same, mixed_graph, normal_tables

SCHEDULES = [Flooding(), Sequential(), Residual()]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
@pytest.mark.parametrize(
    "options",
    [{}, {"damping": 0.5}, {"damping": 0.3}, {"temperature": 0.6}, {"iterations": 0}, {"iterations": 1}],
    ids=str,
)
def test_truncated_runs_agree(schedule: object, options: dict[str, object]) -> None:
    graph = mixed_graph()
    assert_same(BP, graph, normal_tables(graph, 0), **{"iterations": 4, "schedule": schedule, **options})


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
@pytest.mark.parametrize("rho", [None, 0.5, 0.7], ids=str)
def test_counting_numbers_agree(schedule: object, rho: float | None) -> None:
    graph = mixed_graph()
    assert_same(TRW, graph, normal_tables(graph, 1), iterations=3, schedule=schedule, rho=rho)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_batches_agree_and_do_not_mix(schedule: object) -> None:
    """70 examples fill two blocks and part of a third (by residuals each is alone); all share one group."""
    graph, count = mixed_graph(), 7 if isinstance(schedule, Residual) else 70
    tables = normal_tables(graph, 4, count)
    tables["square"] = tables["square"][0]
    assert_same(BP, graph, tables, iterations=2, schedule=schedule)
    whole = BP(iterations=500, tolerance=1e-4, schedule=schedule, damping=0.5)(graph, tables)  # type: ignore[arg-type]
    alone = {name: table if name == "square" else table[5] for name, table in tables.items()}
    one = BP(iterations=500, tolerance=1e-4, schedule=schedule, damping=0.5)(graph, alone)  # type: ignore[arg-type]
    torch.testing.assert_close(whole.states[5], one.states, rtol=0, atol=1e-12)
    assert int(whole.status.sweeps[5]) == int(one.status.sweeps)
    assert len(set(whole.status.sweeps.tolist())) > 1


def test_two_batch_dimensions() -> None:
    graph = mixed_graph()
    tables = normal_tables(graph, 5, 3, 4)
    tables["triple"] = tables["triple"][:, :1]
    assert_same(BP, graph, tables, iterations=2)
    assert BP(iterations=2, tolerance=0)(graph, tables).variables.shape == (3, 4, 9, 4)


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("batch", [1, 3, 9])
def test_large_tables_agree(batch: int, own: bool) -> None:
    """Tables of 16 states and more stay as they are in memory; examples that share them run as matrix products."""
    scopes = {"pair": [[0, 3], [1, 3]], "triple": [[4, 2, 5]], "small": [[2, 4]], "oblong": [[5, 0]], "unary": [[0]]}
    graph = FactorGraph([17, 17, 3, 18, 2, 16], scopes)
    tables = normal_tables(graph, 10, batch)
    if not own:
        tables = {name: table if name == "unary" else table[0] for name, table in tables.items()}
    assert_same(BP, graph, tables, iterations=3, damping=0.2)
    gradients = []
    for engine in (Reference(), Compiled(threads=1)):
        leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
        beliefs = BP(iterations=3, tolerance=0, engine=engine)(graph, leaves)
        loss = (beliefs.states.square().cumsum(-1)).mean() + beliefs.factor("triple").square().sum()
        gradients.append(torch.autograd.grad(loss, list(leaves.values())))
    for plain, fast in zip(*gradients, strict=True):
        torch.testing.assert_close(fast, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_grids_with_rho_of_a_half_agree(schedule: object, zeros: bool) -> None:
    """Variables in four factors share one root and one division, unless a message is zero."""
    graph = grid(4, 5)
    tables = normal_tables(graph, 9)
    if zeros:
        tables["pair"][::3, 0, 1] = -torch.inf
        tables["pair"][::3, 0, 0] = -torch.inf  # a variable that cannot be 0 tells its neighbours so
    assert_same(TRW, graph, tables, iterations=4, rho=0.5, schedule=schedule)
    run = TRW(iterations=4, tolerance=0, rho=0.5, schedule=schedule, engine=Compiled(threads=1))(graph, tables)  # type: ignore[arg-type]
    assert run.status.domain == "probability"  # nothing was lost and had to be repaired


@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_max_product_agrees(schedule: object) -> None:
    graph = mixed_graph()
    tables = normal_tables(graph, 7)
    options = {"iterations": 5, "tolerance": 0.0, "temperature": 0.0, "schedule": schedule}
    plain = BP(engine=Reference(), **options)(graph, tables)  # type: ignore[arg-type]
    fast = BP(engine=Compiled(threads=1), **options)(graph, tables)  # type: ignore[arg-type]
    torch.testing.assert_close(fast.states, plain.states, rtol=0, atol=1e-10)
    assert torch.equal(fast.assignment, plain.assignment)
    torch.testing.assert_close(fast.log_partition, plain.log_partition)


def test_initial_messages_continue_a_run() -> None:
    graph = mixed_graph()
    tables = normal_tables(graph, 8)
    half = BP(iterations=2, tolerance=0)(graph, tables)
    rest = BP(iterations=3, tolerance=0)(graph, tables, initial=half.messages)
    whole = BP(iterations=5, tolerance=0)(graph, tables)
    torch.testing.assert_close(rest.states, whole.states, rtol=0, atol=1e-12)
    assert_same(BP, graph, tables, iterations=2, initial=half.messages)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    graph = grid(40, 30, 3)
    tables = normal_tables(graph, 9)
    one = BP(iterations=5, tolerance=0, engine=Compiled(threads=1))(graph, tables)
    many = BP(iterations=5, tolerance=0, engine=Compiled(threads=threads))(graph, tables)
    assert torch.equal(one.states, many.states)
    batch = normal_tables(graph, 9, 70)
    one = BP(iterations=3, tolerance=0, engine=Compiled(threads=1))(graph, batch)
    many = BP(iterations=3, tolerance=0, engine=Compiled(threads=threads))(graph, batch)
    assert torch.equal(one.states, many.states)


def test_float32() -> None:
    graph = mixed_graph()
    double = normal_tables(graph, 10, 9)
    single = {name: table.float() for name, table in double.items()}
    beliefs = BP(iterations=3, tolerance=0)(graph, single)
    assert beliefs.states.dtype == torch.float32
    exact = BP(iterations=3, tolerance=0)(graph, double)
    torch.testing.assert_close(beliefs.states.double(), exact.states, rtol=0, atol=1e-5)
    lone = BP(iterations=3, tolerance=0)(graph, {name: table[0] for name, table in single.items()})
    torch.testing.assert_close(lone.states.double(), exact.states[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("engine", [Reference(), Compiled()], ids=lambda engine: engine.name)
def test_hard_zeros_and_contradictions(engine: object) -> None:
    """XOR factors determine everything; one more makes it impossible."""
    graph = FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2]], "unary": [[0]]})
    differ = torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf]], dtype=torch.float64)
    first = torch.tensor([[-torch.inf, 0.0]], dtype=torch.float64)
    beliefs = BP(engine=engine)(graph, {"pair": differ, "unary": first})  # type: ignore[arg-type]
    assert beliefs.assignment.tolist() == [1, 0, 1]
    torch.testing.assert_close(beliefs.log_partition, torch.zeros((), dtype=torch.float64))
    triangle = FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2], [0, 2]], "unary": [[0]]})
    with pytest.raises(ImpossibleError, match="no configuration is possible"):
        BP(engine=engine)(triangle, {"pair": differ, "unary": first})  # type: ignore[arg-type]


def test_nothing_is_claimed_of_a_run_that_stopped_short() -> None:
    """Damping shrinks steps, a generous tolerance accepts large ones: neither makes a chain's beliefs exact, and no
    tolerance does before messages have gone all the way."""
    graph = chain(30)
    tables = normal_tables(graph, 13, scale=2.0)
    for options in ({"damping": 0.9, "tolerance": 1e-4, "iterations": 2000}, {"tolerance": 0.3}):
        status = BP(**options)(graph, tables).status  # type: ignore[arg-type]
        assert status.converged
        assert not status.exact
    early = BP()(graph, tables).status
    assert early.converged and not early.exact and int(early.sweeps) < graph.layout.depth
    assert BP(schedule=Sequential())(graph, tables).status.exact
    assert BP(engine=Reference(), schedule=Residual())(chain(2), normal_tables(chain(2), 0), {0: 0, 1: 0}).status.exact


def test_an_assignment_that_breaks_a_hard_zero_is_said() -> None:
    odd_cycle = FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2], [0, 2]]})
    differ = torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf]], dtype=torch.float64)
    beliefs = BP(temperature=0.0)(odd_cycle, {"pair": differ})
    with pytest.warns(LoopwiseWarning, match="breaks a hard zero"):
        assert beliefs.log_partition.item() == -torch.inf


def test_factor_beliefs_whose_product_underflows() -> None:
    """Table and messages are within range, their product is not: beliefs of 0, and with them a wrong log Z."""
    zero = -torch.inf
    unary = torch.tensor([[130.2, 16.6], [zero, 63.4]], dtype=torch.float64)
    pair = torch.tensor([[[49.8, -252.3], [-73.8, zero]]], dtype=torch.float64)
    beliefs = BP()(chain(2), {"unary": unary, "pair": pair})
    assert beliefs.status.domain == "probability"
    assert beliefs.factor("pair").sum().item() == pytest.approx(1.0)
    assert float(beliefs.log_partition) == pytest.approx(130.2 - 252.3 + 63.4)
