"""Each example stops by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget import hard_rule
from loopwise.inference.base import Problem
from loopwise.inference.messages.compiled import CompiledSolution
from loopwise.inference.messages.kernel_run import KernelRun, Workspace
from oracles.stopping_cases import by_trace, ring, settling, tables_of


@pytest.mark.parametrize("examples", [3, 40, 150])
@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
def test_examples_stop_by_themselves(examples: int, schedule: object) -> None:
    graph = ring()
    tables = tables_of(graph, examples)
    stopping = settling(20, -5.0, schedule=schedule)
    beliefs = stopping(graph, tables)
    states, sweeps = by_trace(stopping, graph, tables)
    assert torch.equal(beliefs.status.sweeps, sweeps)
    assert examples == 3 or len(torch.unique(sweeps)) > 1
    torch.testing.assert_close(beliefs.states, states, rtol=0, atol=1e-10)


def test_those_that_run_on_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is swept after the easy examples stopped are full lanes of the others, not all lanes."""
    graph = ring()
    tables = tables_of(graph, 256, scale=2.0)
    tables["unary"][torch.arange(256) % 4 == 0] *= 0.05  # these are in for a long run
    made: list[int] = []
    monkeypatch.setattr(hard_rule, "LOOK", 0)  # looks as often as can be, though sweeps are short
    monkeypatch.setattr(hard_rule, "AT_LEAST", 1)
    resume = KernelRun.resume

    def spy(run: KernelRun, options: Any, result: Any, blocks: Any, workspace: Any) -> Any:
        made.append(32 * len(blocks) * options.iterations)
        return resume(run, options, result, blocks, workspace)

    monkeypatch.setattr(KernelRun, "resume", spy)
    beliefs = settling(60, -7.0)(graph, tables)
    swept, wanted = sum(made), int(beliefs.status.sweeps.sum())
    assert wanted <= swept < 0.8 * 256 * int(beliefs.status.sweeps.max())


@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
@pytest.mark.parametrize("own", [("pair",), ("unary", "pair"), ("unary",)])
def test_what_is_gathered_goes_on_as_it_would_have(schedule: object, own: tuple[str, ...]) -> None:
    """Tables that examples share, and tables of their own: both move with the examples that still run."""
    graph = ring(5, 3)
    generator = torch.Generator().manual_seed(3)
    tables = {}
    for group in graph.groups:
        table = torch.randn(100, group.count, *group.shape, generator=generator, dtype=torch.float64)
        tables[group.name] = table if group.name in own else table[0]
    method = lw.BP(iterations=2, tolerance=0, schedule=schedule, engine=lw.inference.Compiled(1))  # type: ignore[arg-type]
    problem = Problem(graph, tables, torch.Size([100]), torch.empty(0, dtype=torch.float64))
    solution = lw.inference.Compiled(1).solve(problem, method, method.counting_numbers(graph))
    assert isinstance(solution, CompiledSolution)
    (part,) = solution.session.parts
    chosen = np.array([3, 4, 40, 77, 99])
    run, result = part.run.gathered(part.options, part.result, chosen)
    workspace = Workspace()
    whole = replace(method, iterations=6, trace=True)(graph, tables).trace
    assert whole is not None
    for first, count in ((2, 1), (3, 3)):
        more = part.options._replace(iterations=count)
        trace, moved = run.resume(more, result, np.arange(run.blocks), workspace)
        for sweep in range(count):
            after = run.storage.unpack_examples(trace[sweep + 1], len(chosen))
            wanted = whole[first + sweep + 1, chosen]
            torch.testing.assert_close(after, wanted, rtol=0, atol=1e-12)
            change = (wanted - whole[first + sweep, chosen]).abs().amax(-1)
            np.testing.assert_allclose(moved[sweep, : len(chosen)], change, rtol=0, atol=1e-12)


def test_one_example_that_rests_is_read_again_and_not_called_converged() -> None:
    """Whether messages rest was not looked at: beliefs at rest say nothing of it."""
    graph = lw.grid(3, 3)
    potentials = {group.name: 0.3 * torch.randn(group.count, *group.shape).double() for group in graph.groups}
    never = budget.Policy()
    for parameter in never.parameters():
        parameter.data.zero_()
    beliefs = budget.Stopping(lw.BP(iterations=50), never)(graph, potentials)
    assert not beliefs.status.converged
    expected = lw.BP(iterations=50, tolerance=0)(graph, potentials).log_partition
    assert float(beliefs.log_partition) == pytest.approx(float(expected))
    later = budget.Stopping(lw.BP(iterations=50), never)(graph, potentials)
    potentials["pair"].mul_(2)
    with pytest.raises(lw.notices.ChangedError):
        _ = later.messages
