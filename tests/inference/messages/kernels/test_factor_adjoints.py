"""Undoing messages of factors, against autograd through messages written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.factor_adjoints import factors_back, message_back
from loopwise.inference.messages.kernels.plan import Factor, Share, new_undo_scratch
from loopwise.inference.messages.kernels.views import Message
from oracles.kernel_cases import KernelCase, wanting

CASES = [{}, {"damping": 0.3}, {"log": True}, {"pairs": True}]


@kernel
def undone(run, share, n, adjoint, static):
    scratch = new_undo_scratch(run.plan, adjoint.m, static.lanes)
    factors_back(run, share, Message(n, U(0)), adjoint, scratch, static.sharing, static)


@kernel
def one_undone(run, one, adjoint, static):
    message_back(run, one, adjoint, new_undo_scratch(run.plan, adjoint.m, static.lanes), static)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_all_messages_undone(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    run, seed = case.run(case.start, case.heard), case.balanced(1)
    adjoint = case.adjoint(seed, torch.zeros_like(seed), np.zeros(len(seed)))
    for part in range(2):
        share = Share(U(0), U(part), U(2), None)
        undone(case.linearised(run), share, run.messages.n, adjoint, case.static)
    *theta, n, old = wanting(*case.theta, case.heard, case.start)
    expected = torch.autograd.grad(case.to_variables(theta, n, old), [*theta, n, old], seed, allow_unused=True)
    torch.testing.assert_close(torch.from_numpy(adjoint.theta), torch.cat([x.reshape(-1) for x in expected[:-2]]))
    torch.testing.assert_close(torch.from_numpy(adjoint.n), expected[-2])
    if case.damping:  # otherwise anything is left in those of the old messages
        torch.testing.assert_close(torch.from_numpy(adjoint.m), expected[-1])


@pytest.mark.parametrize("options", CASES, ids=str)
def test_one_message_undone(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    for edge in case.edges:
        run, seed = case.run(case.start, case.heard), case.balanced(2)
        adjoint = case.adjoint(seed, torch.zeros_like(seed), run.messages.n)
        numbers = [U(x) for x in (edge.group, 0, edge.factor, edge.position, edge.position + 1)]
        one_undone(case.linearised(run), Factor(*numbers), adjoint, case.static)
        *theta, n, old = wanting(*case.theta, case.heard, case.start)
        expected = torch.autograd.grad(case.renewed(edge, theta, n, old), [*theta, n, old], seed, allow_unused=True)
        sums = [torch.zeros_like(t) if x is None else x for x, t in zip(expected, [*theta, n, old], strict=True)]
        torch.testing.assert_close(torch.from_numpy(adjoint.theta), torch.cat([x.reshape(-1) for x in sums[:-2]]))
        torch.testing.assert_close(torch.from_numpy(adjoint.n), sums[-2])
        torch.testing.assert_close(torch.from_numpy(adjoint.m), sums[-1])
