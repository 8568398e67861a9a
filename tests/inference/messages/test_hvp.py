"""Compiled second derivatives: every tape, any number of threads."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from oracles.gradient_cases import gap, mixed_graph, tables_of
from oracles.hvp_cases import product, truncated

SHARED = ("binary", "triple", "oblong")


@pytest.mark.parametrize("batch", [(), (40,)], ids=["one example", "batch"])
def test_all_tapes_agree(batch) -> None:
    graph = mixed_graph()
    tables = tables_of(graph, *batch, shared=SHARED if batch else ())
    tapes = (lw.gradient.Store(), lw.gradient.Recompute(), lw.gradient.Checkpoints(2), lw.gradient.Checkpoints())
    first, *others = [product(truncated(5, gradient=lw.Unroll(tape)), graph, tables) for tape in tapes]
    assert max(gap(other, first) for other in others) < 1e-13


def test_threads_change_nothing_but_rounding(monkeypatch) -> None:
    monkeypatch.setattr("loopwise.inference.messages.kernel_run.WORTH_A_THREAD", 1)
    graph = mixed_graph()
    one, two, again = (
        product(truncated(3, engine=lw.inference.Compiled(threads=threads)), graph, tables_of(graph))
        for threads in (1, 2, 2)
    )
    assert gap(two, one) < 1e-12
    assert all(torch.equal(two[name], part) for name, part in again.items())
