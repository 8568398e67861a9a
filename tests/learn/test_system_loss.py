"""The training objective of a system as a function of one vector: value, gradient, and what L-BFGS makes of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.learn.descent import Descent, Smooth
from loopwise.learn.system_loss import SystemLoss
from loopwise.learn.trainer import train


def made() -> tuple[lw.System, lw.Examples]:
    graph = lw.chain(4, 3)
    values = np.random.default_rng(0).integers(0, 3, (12, 4))
    system = lw.System(lw.TablePotentials.random(graph, seed=1), lw.BP(iterations=6))
    return system, lw.Examples.of(graph, values, np.full(4, lw.Role.OUTPUT))


@pytest.mark.parametrize("goal", [lw.loss.SurrogateLikelihood(), lw.loss.MSE(), lw.loss.F1(positive=[1])])
def test_value_and_gradient(goal: lw.loss.Loss | lw.loss.LikelihoodObjective) -> None:
    system, examples = made()
    loss = SystemLoss(system, examples, goal)
    start = loss.start()
    value, gradient = loss(start)
    assert value == pytest.approx(float(lw.learn.risk(system, examples, goal).detach()), rel=1e-9)
    for place in (0, 5, len(start) - 1):
        moved = [start.copy(), start.copy()]
        moved[0][place] += 1e-5
        moved[1][place] -= 1e-5
        slope = (loss(moved[0])[0] - loss(moved[1])[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_it_is_minimised_as_by_fit() -> None:
    goal = lw.loss.SurrogateLikelihood()
    system, examples = made()
    loss = SystemLoss(system, examples, goal)
    descent = Descent([Smooth(loss, 0.1, 200, 1e-14, 10)], loss.start())
    train(descent, descent.limits)
    other, _ = made()
    lw.fit(other, examples, goal, optimizer=lambda p: lw.optim.LBFGS(p, 200), epochs=1, prior=lw.prior.L2(0.1))
    flat = torch.cat([param.detach().reshape(-1) for param in other.parameters()]).numpy()
    np.testing.assert_allclose(descent.answer, flat, atol=1e-4)
