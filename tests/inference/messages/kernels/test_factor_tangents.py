"""Tangents of messages of factors, and of undoing them, against derivatives of messages written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.factor_tangents import Both, Moving, factors_back_hvp, factors_push
from loopwise.inference.messages.kernels.plan import Share, Tangent, new_undo_scratch
from loopwise.inference.messages.kernels.views import Message
from oracles.kernel_cases import KernelCase

CASES = [{}, {"damping": 0.3}, {"log": True}, {"pairs": True}]


@kernel
def pushed(run, share, n, tangent, static):
    scratch = new_undo_scratch(run.plan, tangent.m, static.lanes)
    moving = Moving(Message(n, U(0)), Message(tangent.n, U(0)))
    factors_push(run, share, moving, tangent, scratch, static.general, static.sharing, static)


@kernel
def undone(run, share, n, tangent, both, static):
    scratch = new_undo_scratch(run.plan, tangent.m, static.lanes)
    moving = Moving(Message(n, U(0)), Message(tangent.n, U(0)))
    factors_back_hvp(run, share, moving, tangent, both, scratch, static.general, static.sharing, static)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_tangents_of_messages_and_of_their_adjoints(options: dict[str, float]) -> None:
    case = KernelCase(**options)
    random = torch.Generator().manual_seed(3)
    run, seed, share = case.run(case.start, case.heard), case.balanced(1), Share(U(0), U(0), U(1), None)
    moves = tuple(torch.randn(x.shape, generator=random, dtype=torch.float64) for x in (*case.theta, case.heard))
    given, old_move = (*case.theta, case.heard), case.balanced(4)
    none = np.zeros(0)
    theta_dot = torch.cat([move.reshape(-1) for move in moves[:-1]]).numpy()
    tangent = Tangent(old_move.numpy().copy(), moves[-1].numpy(), none, theta_dot, none, none, none, none, none)
    back = case.linearised(run)
    pushed(back, share, run.messages.n, tangent, case.static)
    _, expected = torch.autograd.functional.jvp(
        lambda *values: case.to_variables(list(values[:-2]), values[-2], values[-1]),
        (*given, case.start), (*moves, old_move),
    )  # fmt: skip
    for edge in case.edges:  # the scale of a message is free
        mine, other = torch.from_numpy(tangent.m[edge.place]), expected[edge.place]
        torch.testing.assert_close(mine - mine.mean(), other - other.mean(), rtol=1e-10, atol=1e-12)

    room = np.zeros(len(seed))
    both = Both(
        case.adjoint(seed, torch.zeros_like(seed), room),
        case.adjoint(torch.zeros_like(seed), torch.zeros_like(seed), room),
    )
    undone(back, share, run.messages.n, tangent, both, case.static)
    _, twice = torch.autograd.functional.hvp(
        lambda *values: (case.to_variables(list(values[:-1]), values[-1], case.start) * seed).sum(), given, moves
    )
    torch.testing.assert_close(torch.from_numpy(both.dotted.theta), torch.cat([x.reshape(-1) for x in twice[:-1]]))
    torch.testing.assert_close(torch.from_numpy(both.dotted.n), twice[-1])
