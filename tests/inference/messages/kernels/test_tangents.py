"""Runs pushed forward and undone with tangents, against derivatives of sweeps written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from loopwise.gradient.unroll import Checkpoints, Store, Tape
from loopwise.inference.messages.backward import Backward, RunOutputs, tape_for
from loopwise.inference.messages.hvp import Direction, push_and_pull
from loopwise.inference.messages.schedules import Flooding, Sequential
from oracles.kernel_cases import KernelCase


@pytest.mark.parametrize("options", [{}, {"damping": 0.3}, {"log": True}], ids=str)
@pytest.mark.parametrize("tape", [Store(), Checkpoints(2)], ids=lambda tape: type(tape).__name__)
@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_tangents_of_results_and_of_adjoints(schedule: object, tape: Tape, options: dict[str, float]) -> None:
    case = KernelCase(**options)
    run, settings = case.kernel_run(), case.options(3, schedule)
    used, spec = tape_for(tape, run, settings, False, False)
    start = case.numbers(case.start)
    result = run.start(settings, start.copy(), spec)
    random = torch.Generator().manual_seed(1)
    given = (*case.theta, case.unary, case.start)
    moves = (*[torch.randn(x.shape, generator=random, dtype=torch.float64) for x in given[:-1]], case.balanced(5))
    weights = torch.randn(case.layout.states, generator=random, dtype=torch.float64)
    weights = torch.cat([weights[case.of_variable(v)] - weights[case.of_variable(v)].mean() for v in range(6)])
    none = torch.zeros_like(case.start)
    tables = [move.reshape(len(move), -1) for move in moves[:-2]]
    adjoint = RunOutputs(weights[None], none[None], none[None])
    direction = Direction(tables, moves[-2], moves[-1][None])
    backward = Backward(run, settings, result, start, used, False)
    tangents, products = push_and_pull(backward, adjoint, direction)

    def beliefs(*values: Tensor) -> Tensor:
        *theta, unary, m = values
        last = (case.flooded if isinstance(schedule, Flooding) else case.gone_round)(theta, unary, m, 3)
        return case.beliefs(unary, last)

    _, moved = torch.autograd.functional.jvp(beliefs, given, moves)
    states = tangents.states[0]
    mine = torch.cat(
        [states[case.of_variable(v)] - (states * beliefs(*given).exp())[case.of_variable(v)].sum() for v in range(6)]
    )
    torch.testing.assert_close(mine, moved, rtol=1e-9, atol=1e-11)
    _, twice = torch.autograd.functional.hvp(lambda *values: (beliefs(*values) * weights).sum(), given, moves)
    for found, other in zip([*products.tables, products.unary, products.initial], twice, strict=True):
        torch.testing.assert_close(found.reshape(other.shape), other, rtol=1e-9, atol=1e-11)
