"""Whole runs of the flooding and the sequential kernel, against sweeps written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.inference.messages.kernel_run import TapeSpec
from loopwise.inference.messages.schedules import Flooding, Sequential
from oracles.kernel_cases import KernelCase


@pytest.mark.parametrize("options", [{}, {"damping": 0.3}, {"log": True}], ids=str)
@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_final_messages_and_beliefs(schedule: object, options: dict[str, float]) -> None:
    case = KernelCase(**options)
    result = case.kernel_run().start(case.options(3, schedule), case.numbers(case.start), TapeSpec())
    sweeps = case.flooded if isinstance(schedule, Flooding) else case.gone_round
    expected = sweeps(case.theta, case.unary, case.start, 3)
    torch.testing.assert_close(case.logs(result.m), expected)
    torch.testing.assert_close(torch.from_numpy(result.beliefs), case.beliefs(case.unary, expected).exp())
    assert result.sweeps.tolist() == [3]


@pytest.mark.parametrize("schedule", [Flooding(), Sequential()], ids=lambda schedule: type(schedule).__name__)
def test_the_tape_has_every_step(schedule: object) -> None:
    case = KernelCase()
    options = case.options(2, schedule)
    result = case.kernel_run().start(options, case.numbers(case.start), TapeSpec(steps=True, every=options.steps))
    size, every = len(case.start), options.steps
    for sweep in range(3):
        sweeps = case.flooded if isinstance(schedule, Flooding) else case.gone_round
        m = sweeps(case.theta, case.unary, case.start, sweep)
        kept = result.tape.m[sweep * size : (sweep + 1) * size]
        torch.testing.assert_close(case.logs(kept), m)
        n = result.messages.n[sweep * every * size : (sweep * every + 1) * size]
        torch.testing.assert_close(case.logs(n), case.normalised(case.to_factors(case.unary, m)))


def test_a_run_stops_where_messages_rest() -> None:
    case = KernelCase()
    result = case.kernel_run().start(case.options(500, tolerance=1e-9), case.numbers(case.start), TapeSpec())
    sweeps = int(result.sweeps[0])
    assert 3 < sweeps < 500 and result.residual[0] < 1e-9
    before, after = (case.flooded(case.theta, case.unary, case.start, count) for count in (sweeps - 1, sweeps))
    torch.testing.assert_close(case.logs(result.m), after, rtol=1e-9, atol=1e-12)
    assert float((after - before).abs().max()) * 0.25 < 1e-9
    assert np.isfinite(result.lowest[0])
