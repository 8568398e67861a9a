"""What runs of kernels keep for one another."""

from __future__ import annotations

import gc

import numpy as np
import torch

import loopwise as lw
from loopwise.graph import FactorGraph, grid
from loopwise.inference.messages import prepared
from loopwise.inference.messages.kernel_run import SPARE, Spare

FLOATS = np.dtype(np.float64)


class Run:
    """Something that holds a tape."""


def test_memory_is_lent_to_one_run_at_a_time() -> None:
    spare, first, second = Spare(), Run(), Run()
    one = spare.take(Spare.LEAST, FLOATS)
    spare.return_after(first, one)
    two = spare.take(Spare.LEAST, FLOATS)
    spare.return_after(second, two)
    assert not np.shares_memory(one, two)
    del first
    again = spare.take(Spare.LEAST - 5, FLOATS)
    assert np.shares_memory(again, one)
    assert len(again) == Spare.LEAST - 5
    spare.return_after(third := Run(), again)
    del second, third
    assert len(spare.take(Spare.LEAST, FLOATS)) == Spare.LEAST
    assert len(spare.take(Spare.LEAST + 1, FLOATS)) == Spare.LEAST + 1


def test_what_is_kept_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(Spare, "MOST", 2 * Spare.LEAST)
    for size in (8, Spare.LEAST):  # numbers of 8 bytes: too few, too many
        spare, run = Spare(), Run()
        memory = spare.take(size, FLOATS)
        spare.return_after(run, memory)
        del run
        assert not np.shares_memory(spare.take(size, FLOATS), memory)
    spare, runs = Spare(), [Run(), Run()]
    for run in runs:
        spare.return_after(run, spare.take(Spare.LEAST // 8, FLOATS))
    del run
    runs.clear()
    assert len(spare._free) == 1


def gradient(graph: FactorGraph, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    pair = torch.randn(graph.group("pair").count, 3, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    unary = torch.zeros(graph.variables, 3, dtype=torch.float64)
    beliefs = lw.BP(iterations=36, tolerance=0)(graph, {"pair": pair, "unary": unary})
    return torch.autograd.grad(beliefs.states.square().sum(), pair)[0]


def test_runs_with_the_memory_of_others_find_the_same(monkeypatch) -> None:
    expected = [gradient(grid(24, 24, 3), seed) for seed in range(2)]
    for numbers in (prepared.SMALL, 0):  # small calls, and the general way
        monkeypatch.setattr(prepared, "SMALL", numbers)
        SPARE._free.clear()
        graph = grid(24, 24, 3)
        found = [gradient(graph, seed) for seed in (0, 1)]
        gc.collect()
        assert [memory.nbytes >= Spare.LEAST for memory in SPARE._free] == [True]
        SPARE._free[0][:] = np.nan
        found.append(gradient(graph, 0))
        for one, two in zip(found, (*expected, expected[0]), strict=True):
            assert torch.allclose(one, two, rtol=0, atol=1e-12)
