"""The compiled backward: every tape, any number of threads, more than once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import loopwise as lw
from loopwise.gradient.unroll import Fitting
from oracles.gradient_cases import (
    SCHEDULES,
    everything,
    gap,
    gradients,
    mixed_graph,
    normal,
    tables_of,
    truncated,
)

SHARED = ("binary", "triple", "oblong")


TAPES = [
    lw.gradient.Store(),
    lw.gradient.Recompute(),
    lw.gradient.Checkpoints(),
    lw.gradient.Checkpoints(1),
    lw.gradient.Checkpoints(2),
    Fitting(limit=1),
]


# ---------------------------------------------------------------------------------------------------- its options


@pytest.mark.parametrize("kind", ["flooding", "sequential"])
@pytest.mark.parametrize("batch", [(), (40,)], ids=["one example", "batch"])
def test_all_tapes_give_the_same_bits(kind, batch) -> None:
    graph = mixed_graph()
    tables = tables_of(graph, *batch, scale=0.7, shared=SHARED if batch else ())
    initial = normal((*batch, graph.layout.slots), 5)
    for options in ({"trace": True}, {"iterations": 60, "tolerance": 1e-2, "damping": 0.1}):
        results = []
        for tape in TAPES:
            method = truncated(
                7, schedule=SCHEDULES[kind], engine=lw.inference.Compiled(threads=1), gradient=lw.Unroll(tape)
            )
            results.append(gradients(replace(method, **options), graph, tables, initial=initial))
        for tape, result in zip(TAPES[1:], results[1:], strict=True):
            assert all(torch.equal(result[name], part) for name, part in results[0].items()), tape


def test_a_second_backward_finds_the_tape_unchanged(engine, schedule) -> None:
    graph = mixed_graph()
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    loss = everything(truncated(3, schedule=schedule, engine=engine)(graph, leaves))
    first = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
    second = torch.autograd.grad(loss, list(leaves.values()))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("batch", [(), (70,)], ids=["one example", "batch"])
def test_threads_change_nothing_but_rounding(monkeypatch, batch) -> None:
    monkeypatch.setattr("loopwise.inference.messages.kernel_run.WORTH_A_THREAD", 1)
    graph = mixed_graph()
    tables = tables_of(graph, *batch, shared=("binary",) if batch else ())
    one, two, again = (
        gradients(truncated(3, engine=lw.inference.Compiled(threads=threads)), graph, tables) for threads in (1, 2, 2)
    )
    assert gap(two, one) < 1e-13
    assert all(torch.equal(two[name], part) for name, part in again.items())
