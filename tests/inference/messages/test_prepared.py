"""Small calls take a short way; whatever they answer is what the general way answers."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from types import FrameType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import loopwise as lw
from loopwise.graph import FactorGraph, chain, grid
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.prepared import KEPT_METHODS, Packing, prepared_beliefs
from loopwise.inference.messages.reference import Reference
from loopwise.notices import ChangedError, ConvergenceWarning, ImpossibleError

MIXED = FactorGraph(
    [2, 3, 2, 4, 2],
    {
        "pair": [[0, 2], [2, 4]],
        "odd": [[0, 1], [2, 1]],
        "triple": [[1, 3, 0]],
        "first": [[0], [2]],
        "second": [[4], [0]],
        "third": [[3]],
        "constant": np.zeros((2, 0), dtype=np.int64),
    },
)
WIDE = FactorGraph([16, 16, 16], {"pair": [[0, 1], [1, 2], [2, 0]]})
GRAPHS = {"grid": grid(3, 3), "five states": grid(3, 2, 5), "mixed": MIXED, "wide": WIDE, "forest": chain(4, 3)}


def tables_of(graph: FactorGraph, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> dict:
    generator = torch.Generator().manual_seed(seed)
    return {
        group.name: scale * torch.randn(group.count, *group.shape, generator=generator, dtype=dtype)
        for group in graph.groups
    }


def both(method: lw.BP, graph: FactorGraph, tables: dict[str, Tensor]) -> tuple[Beliefs, Beliefs]:
    short = prepared_beliefs(method, graph, tables)
    assert short is not None
    return short, Inference.__call__(method, graph, tables)


def same(one: Tensor, two: Tensor, tolerance: float = 1e-12) -> bool:
    return one.shape == two.shape and one.dtype == two.dtype and torch.allclose(one, two, rtol=0, atol=tolerance)


def agree(short: Beliefs, full: Beliefs, tolerance: float = 1e-12) -> None:
    assert same(short.states, full.states, tolerance)
    assert same(short.log_partition, full.log_partition, 30 * tolerance)
    assert same(short.messages, full.messages, 30 * tolerance)
    for group in short.graph.groups:
        assert same(short.factor(group.name), full.factor(group.name), tolerance)
    for bound, other in zip(short.log_partition_bounds, full.log_partition_bounds, strict=True):
        assert same(bound, other, 1e-6)
    assert torch.equal(short.assignment, full.assignment)
    mine, theirs = short.status, full.status
    for name in ("method", "exact", "converged", "messages", "engine", "domain", "notes", "stop_rules"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert torch.equal(mine.sweeps, theirs.sweeps)
    assert mine.sweeps.dtype == theirs.sweeps.dtype
    assert torch.equal(mine.stopped, theirs.stopped)
    assert same(mine.residual, theirs.residual, 10 * tolerance)
    assert (short.gradient is None) == (full.gradient is None)


METHODS = {
    "budget": lw.BP(iterations=7, tolerance=0),
    "converging": lw.BP(),
    "damped": lw.BP(iterations=20, tolerance=0, damping=0.3),
    "by beliefs": lw.BP(judge_messages=False),
    "none": lw.BP(iterations=0, tolerance=0),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_the_short_way_answers_what_the_general_way_answers(graph: FactorGraph, method: lw.BP) -> None:
    agree(*both(method, graph, tables_of(graph)))


@pytest.mark.parametrize("graph", [GRAPHS["grid"], MIXED], ids=["grid", "mixed"])
def test_numbers_of_every_size(graph: FactorGraph) -> None:
    agree(*both(METHODS["budget"], graph, tables_of(graph, scale=12.0)))
    agree(*both(METHODS["budget"], graph, tables_of(graph, dtype=torch.float32)), tolerance=1e-5)
    zeros = tables_of(graph)
    zeros["pair"][0, 0, 1] = -torch.inf
    agree(*both(METHODS["budget"], graph, zeros))
    zeros["pair"][:, 0, 1] = -torch.inf
    short, full = both(METHODS["budget"], graph, zeros)
    agree(short, full)
    assert any("hard zeros" in note for note in short.status.notes) == (graph is not MIXED)


def test_dimensions_of_one_example_are_kept() -> None:
    graph = GRAPHS["grid"]
    tables = tables_of(graph)
    tables["unary"] = tables["unary"][None, None]
    short, full = both(lw.BP(), graph, tables)
    assert short.states.shape == (1, 1, 18)
    assert short.status.residual.shape == (1, 1)
    agree(short, full)


def test_a_run_that_does_not_converge_warns() -> None:
    graph = GRAPHS["grid"]
    with pytest.warns(ConvergenceWarning, match="after 2 sweeps") as caught:
        lw.BP(iterations=2)(graph, tables_of(graph))
    assert caught[0].filename == __file__


LOSSES = {
    "variables": lambda beliefs: beliefs.states.square().sum(),
    "factors": lambda beliefs: beliefs.factor("pair").square().sum() + beliefs.states[..., 0].sum(),
    "log-partition": lambda beliefs: beliefs.log_partition.sum(),
    "messages": lambda beliefs: beliefs.messages.square().sum(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("graph", [GRAPHS["grid"], MIXED, WIDE], ids=["grid", "mixed", "wide"])
def test_gradients_are_those_of_the_general_way(graph: FactorGraph, loss) -> None:
    method, tables = METHODS["damped"], tables_of(graph)
    for table in tables.values():
        table.requires_grad_()
    short, full = both(method, graph, tables)
    inputs = list(tables.values())
    mine = torch.autograd.grad(loss(short), inputs, allow_unused=True, retain_graph=True)
    again = torch.autograd.grad(loss(short), inputs, allow_unused=True)
    theirs = torch.autograd.grad(loss(full), inputs, allow_unused=True)
    for one, two, other in zip(mine, again, theirs, strict=True):
        if other is None:
            assert one is None
        else:
            assert same(one, other)
            assert torch.equal(one, two)
    assert short.gradient is not None
    agree(short, full)


@pytest.mark.parametrize("loss", [LOSSES["variables"], LOSSES["factors"]], ids=["variables", "factors"])
def test_second_derivatives(loss) -> None:
    graph, method = GRAPHS["grid"], METHODS["budget"]
    tables = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    reference = lw.BP(iterations=7, tolerance=0, engine=Reference())
    found = []
    for beliefs in (prepared_beliefs(method, graph, tables), reference(graph, tables)):
        slopes = torch.autograd.grad(loss(beliefs), list(tables.values()), create_graph=True)
        slope = sum((slope * (1 + slope.detach())).sum() for slope in slopes)
        found.append(torch.autograd.grad(slope, list(tables.values())))
    for one, two in zip(*found, strict=True):
        assert same(one, two, 1e-10)


def test_only_some_tables_want_a_gradient() -> None:
    graph = GRAPHS["grid"]
    tables = tables_of(graph)
    tables["unary"].requires_grad_()
    beliefs = prepared_beliefs(METHODS["budget"], graph, tables)
    beliefs.states.square().sum().backward()
    assert tables["unary"].grad is not None
    assert tables["pair"].grad is None
    with torch.no_grad():
        assert not prepared_beliefs(METHODS["budget"], graph, tables).states.requires_grad


def test_losses_without_a_gradient_are_refused() -> None:
    graph = GRAPHS["grid"]
    tables = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    loss = (lw.BP()(graph, tables).states * torch.nan).sum()
    with pytest.raises(lw.notices.GradientError, match="NaN or infinite adjoints"):
        loss.backward()


def test_tables_that_were_written_to_since() -> None:
    graph = GRAPHS["grid"]
    tables = tables_of(graph)
    beliefs = prepared_beliefs(lw.BP(), graph, tables)
    before = beliefs.states.clone()
    tables["pair"] += 1.0
    assert torch.equal(beliefs.states, before)
    assert beliefs.status.converged
    with pytest.raises(ChangedError, match="'pair' were changed"):
        _ = beliefs.log_partition
    assert torch.isfinite(beliefs.messages).all()


def test_beliefs_that_were_written_to_have_no_gradient() -> None:
    graph = GRAPHS["grid"]
    tables = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    states = prepared_beliefs(METHODS["budget"], graph, tables).states
    loss = states.sum()
    with torch.no_grad():
        states.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_run_ends_with_its_beliefs() -> None:
    graph = GRAPHS["grid"]
    tables = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    beliefs = prepared_beliefs(METHODS["budget"], graph, tables)
    run = weakref.ref(beliefs._factor_source.__self__.run)
    states = beliefs.states
    loss = beliefs.log_partition + beliefs.factor("pair").square().sum() + beliefs.messages.sum() + states.sum()
    del beliefs
    loss.backward()
    del loss
    assert run() is not None
    del states
    gc.collect()
    assert run() is None


# What goes the general way


def wanted_none(method: lw.BP, graph: FactorGraph, potentials: object) -> None:
    assert prepared_beliefs(method, graph, potentials) is None


def test_numbers_that_need_care_go_the_general_way() -> None:
    graph = GRAPHS["grid"]
    for value in (torch.nan, torch.inf, 1e6, -700.0):
        tables = tables_of(graph)
        tables["pair"][3, 1, 0] = value
        wanted_none(lw.BP(), graph, tables)
    tables = tables_of(graph)
    tables["pair"][3] = torch.tensor([[0.0, -700.0], [-700.0, 0.0]])
    assert lw.BP()(graph, tables).status.domain == "log"
    tables["pair"][3, 1, 0] = torch.nan
    with pytest.raises(ValueError, match="log-potential of factor 3 of group 'pair'"):
        lw.BP()(graph, tables)
    tables = tables_of(graph)
    tables["unary"][4] = -torch.inf
    with pytest.raises(ImpossibleError, match="variable 4 has no possible value"):
        lw.BP()(graph, tables)
    tables = tables_of(graph)
    tables["pair"][0] = -torch.inf
    with pytest.raises(ImpossibleError):
        lw.BP()(graph, tables)


def test_tables_of_other_shapes_go_the_general_way() -> None:
    graph, tables = GRAPHS["grid"], tables_of(GRAPHS["grid"])
    wanted_none(lw.BP(), graph, {**tables, "pair": tables["pair"][0]})
    wanted_none(lw.BP(), graph, {**tables, "pair": tables["pair"].expand(3, -1, -1, -1)})
    wanted_none(lw.BP(), graph, {**tables, "pair": tables["pair"].numpy()})
    wanted_none(lw.BP(), graph, {**tables, "pair": tables["pair"].float()})
    wanted_none(lw.BP(), graph, {**tables, "other": tables["pair"]})
    wanted_none(lw.BP(), graph, {"pair": tables["pair"]})
    wanted_none(lw.BP(), graph, {"pair": tables["pair"], "other": tables["unary"]})
    wanted_none(lw.BP(), graph, [tables["pair"]])
    with torch.inference_mode():
        wanted_none(lw.BP(), graph, tables_of(graph))
    with pytest.raises(ValueError, match="have shape"):
        lw.BP()(graph, {**tables, "pair": tables["pair"][:-1]})


def test_methods_that_are_not_plain_go_the_general_way() -> None:
    graph, tables = GRAPHS["grid"], tables_of(GRAPHS["grid"])
    others = [
        lw.TRW(rho=0.5),
        lw.BP(schedule=lw.Sequential()),
        lw.BP(temperature=0.5),
        lw.BP(temperature=0),
        lw.BP(damping=torch.tensor(0.1)),
        lw.BP(trace=True),
        lw.BP(engine=Reference()),
        lw.BP(stop=lw.inference.Satisfied()),
    ]
    for method in others:
        wanted_none(method, graph, tables)
    tables["pair"].requires_grad_()
    wanted_none(lw.BP(gradient=lw.FixedPoint()), graph, tables)
    wanted_none(lw.BP(gradient=lw.Unroll(lw.gradient.Recompute())), graph, tables)


class Counting(nn.Module):
    def __init__(self, graph: FactorGraph) -> None:
        super().__init__()
        self.tables, self.calls = tables_of(graph, scale=200.0), 0

    def forward(self) -> dict[str, Tensor]:
        self.calls += 1
        return self.tables


def test_a_module_is_asked_once() -> None:
    module = Counting(GRAPHS["grid"])
    wanted_none(lw.BP(), GRAPHS["grid"], module.tables)
    lw.BP(tolerance=0)(GRAPHS["grid"], module)
    assert module.calls == 1


# What is kept


def test_few_methods_are_kept() -> None:
    graph = grid(2, 2)
    tables = tables_of(graph)
    answers = [lw.BP(iterations=count, tolerance=0)(graph, tables).status.sweeps for count in range(1, 9)]
    assert [int(sweeps) for sweeps in answers] == list(range(1, 9))
    packing = Packing.of(graph.layout)
    assert packing is not None
    assert len(packing.calls) == KEPT_METHODS


def test_a_graph_that_was_used_can_be_copied() -> None:
    graph, method = grid(2, 2), lw.BP()
    tables = tables_of(graph)
    expected = method(graph, tables).states
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert torch.equal(method(other, tables).states, expected)


def test_threads_do_not_disturb_each_other() -> None:
    graph, method = grid(4, 4), lw.BP(iterations=50, tolerance=0)
    given = [tables_of(graph, seed) for seed in range(4)]
    expected = [Inference.__call__(method, graph, tables).states for tables in given]
    found: list[Tensor] = [torch.empty(0)] * 4

    def work(number: int) -> None:
        for _ in range(50):
            found[number] = method(graph, given[number]).states
            assert same(found[number], expected[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(one, two) for one, two in zip(found, expected, strict=True))


def test_a_small_call_makes_few_python_calls() -> None:
    graph, method = GRAPHS["grid"], METHODS["budget"]
    tables = tables_of(graph)
    for _ in range(3):
        method(graph, tables)
    count = depth = deepest = 0

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count, depth, deepest
        if event == "call":
            count, depth = count + 1, depth + 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(watch)
    try:
        method(graph, tables)
    finally:
        sys.setprofile(None)
    assert count <= 40
    assert deepest <= 9
