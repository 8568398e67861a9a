"""The random sequential schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import loopwise as lw


def test_each_message_once_of_the_latest_ones() -> None:
    """Two sweeps of a loop of three variables, by hand."""
    graph = lw.FactorGraph([2, 2, 2], {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2], [2, 0]]})
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    pair = torch.randn(3, 2, 2, generator=generator, dtype=torch.float64)
    schedule, ends = lw.inference.RandomSequential(seed=4), [(0, 1), (1, 2), (2, 0)]
    m = {(factor, position): torch.zeros(2).double() for factor in range(3) for position in range(2)}
    for sweep in (1, 2):
        for edge in schedule.order(6, sweep).tolist():
            factor, position = divmod(edge, 2)
            other = ends[factor][1 - position]
            n = unary[other] + sum(value for (f, p), value in m.items() if ends[f][p] == other and f != factor)
            table = pair[factor] if position == 0 else pair[factor].T
            m[factor, position] = torch.logsumexp(table + n, 1).log_softmax(-1)
    beliefs = [(unary[v] + sum(value for (f, p), value in m.items() if ends[f][p] == v)).softmax(-1) for v in range(3)]
    found = lw.BP(2, 0, schedule=schedule)(graph, {"unary": unary, "pair": pair})
    torch.testing.assert_close(found.variables, torch.stack(beliefs), atol=1e-12, rtol=0)
    assert found.status.engine == "compiled" and found.status.messages == 12


def test_seeds_and_fixed_points() -> None:
    graph = lw.grid(3, 3)
    potentials = lw.TablePotentials.random(graph, seed=0)
    one = lw.BP(2, 0, schedule=lw.inference.RandomSequential(0))
    two = replace(one, schedule=lw.inference.RandomSequential(1))
    assert torch.equal(one(graph, potentials).states, one(graph, potentials).states)
    assert not torch.equal(one(graph, potentials).states, two(graph, potentials).states)
    far, flood = replace(one, iterations=200, tolerance=1e-9), lw.BP(iterations=200, tolerance=1e-9)
    mine, theirs = far(graph, potentials), flood(graph, potentials)
    torch.testing.assert_close(mine.states, theirs.states, atol=1e-7, rtol=0)
    assert int(mine.status.sweeps) < int(theirs.status.sweeps)
    mine.states[0].backward()


def test_exact_on_a_tree_and_saved(tmp_path: Path) -> None:
    graph = lw.chain(6)
    potentials = lw.TablePotentials.random(graph, seed=0)
    method = lw.BP(schedule=lw.inference.RandomSequential(2))
    found = method(graph, potentials)
    assert found.status.exact
    torch.testing.assert_close(found.states, lw.Exact()(graph, potentials).states)
    lw.System(potentials, method).save(tmp_path / "system.lw")
    assert lw.System.load(tmp_path / "system.lw").inference == method


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="seed of a random schedule must be a whole number from 0 on, got -1"):
        lw.inference.RandomSequential(-1)
    with pytest.raises(ValueError, match="MessageWeights have no RandomSequential schedule"):
        lw.BP(schedule=lw.inference.RandomSequential(), weights=lw.MessageWeights(messages=0.9))
