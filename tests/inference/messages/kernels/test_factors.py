"""All factors updated once, one message alone, and factor beliefs, against messages written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.factors import factor_beliefs, factor_step, pull_message
from loopwise.inference.messages.kernels.plan import Factor, Share, new_scratch
from oracles.kernel_cases import KernelCase

CASES = [{}, {"damping": 0.3}, {"log": True}, {"pairs": True}]


@kernel
def sent(run, here, share, static):
    scratch = new_scratch(run.plan, run.messages.m, static.lanes)
    factor_step(run, here, share, scratch, static.sharing, static)
    return scratch.lowest[0]


@kernel
def pulled(run, here, one, states, static):
    pull_message(run, here, one, states, new_scratch(run.plan, run.messages.m, static.lanes), static)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_all_messages_of_all_factors(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    run, expected = case.run(case.start, case.heard), case.to_variables(case.theta, case.heard, case.start)
    parts = [Share(np.uint64(0), np.uint64(part), np.uint64(2), None) for part in range(2)]
    lowest = [sent(run, case.here, part, case.static) for part in parts]
    torch.testing.assert_close(torch.from_numpy(run.messages.m), torch.from_numpy(case.numbers(expected)))
    assert np.isfinite(lowest).all()


@pytest.mark.parametrize("options", CASES[:3], ids=str)
def test_one_message_leaves_the_others_alone(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    for edge in case.edges:
        run = case.run(case.start, case.heard)
        numbers = [np.uint64(x) for x in (edge.group, 0, edge.factor, edge.position, edge.position + 1)]
        pulled(run, case.here, Factor(*numbers), np.uint64(edge.place.stop - edge.place.start), case.static)
        expected = case.renewed(edge, case.theta, case.heard, case.start)
        torch.testing.assert_close(torch.from_numpy(run.messages.m), torch.from_numpy(case.numbers(expected)))


@pytest.mark.parametrize("options", CASES[:1] + CASES[2:3], ids=str)
def test_beliefs_of_factors(options: dict[str, bool]) -> None:
    case = KernelCase(**options)
    run = case.run(case.start, case.heard)
    for number, table in enumerate(case.theta):
        out = np.empty(table.numel())
        theta, one = run.potentials.theta, np.uint64(1)
        factor_beliefs(run.plan, theta, np.uint64(number), one, run.messages.n, out, case.static)
        for factor, cells in enumerate(table):
            for edge in case.edges:
                if edge[:2] == (number, factor):
                    shape = [1] * cells.ndim
                    shape[edge.position] = -1
                    cells = cells + case.heard[edge.place].reshape(shape)
            expected = cells.reshape(-1).softmax(0)
            mine = out.reshape(len(table), -1)[factor]
            torch.testing.assert_close(torch.from_numpy(mine), expected)
