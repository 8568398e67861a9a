"""Runs undone step by step, against autograd through sweeps written out."""

from __future__ import annotations

import pytest
import torch

from loopwise.gradient.unroll import Checkpoints, Recompute, Store, Tape
from loopwise.inference.messages.backward import Backward, RunOutputs, tape_for
from loopwise.inference.messages.schedules import Flooding, Sequential
from oracles.kernel_cases import KernelCase, wanting


@pytest.mark.parametrize("options", [{}, {"damping": 0.3}, {"log": True}], ids=str)
@pytest.mark.parametrize("tape", [Store(), Recompute(), Checkpoints(2)], ids=lambda tape: type(tape).__name__)
@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_adjoints_of_all_that_was_given(schedule: object, tape: Tape, options: dict[str, float]) -> None:
    case = KernelCase(**options)
    run, settings = case.kernel_run(), case.options(5, schedule)
    used, spec = tape_for(tape, run, settings, False, False)
    start = case.numbers(case.start)
    result = run.start(settings, start.copy(), spec)
    weights = torch.randn(case.layout.states, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = torch.cat([weights[case.of_variable(v)] - weights[case.of_variable(v)].mean() for v in range(6)])
    of_m, of_n = case.balanced(1), case.balanced(2)
    found = Backward(run, settings, result, start, used, False).pull_back(
        RunOutputs(weights[None], of_n[None], of_m[None])
    )
    *theta, unary, m = wanting(*case.theta, case.unary, case.start)
    last = (case.flooded if isinstance(schedule, Flooding) else case.gone_round)(theta, unary, m, 5)
    outputs = [case.beliefs(unary, last), last, case.to_factors(unary, last)]
    expected = torch.autograd.grad(outputs, [*theta, unary, m], [weights, of_m, of_n])
    for mine, other in zip(found.tables, expected[:-2], strict=True):
        torch.testing.assert_close(mine.reshape(other.shape), other, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.unary.reshape(-1), expected[-2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.initial[0], expected[-1], rtol=1e-10, atol=1e-12)
