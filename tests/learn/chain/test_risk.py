"""Risks of chains and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.chain import (
    EntityF1,
    TokenF1,
    TokenHamming,
)
from loopwise.learn.chain.risk import ExactRisk, RiskUnder
from loopwise.loss.chains import SoftLoss
from oracles.chain_cases import (
    check_gradient,
    make_problem,
    random_weights,
)


@pytest.mark.parametrize("loss", [TokenHamming(), TokenF1(), EntityF1()])
@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_risks_and_their_gradients(loss: SoftLoss, steps: str) -> None:
    problem = make_problem(4, steps)
    weights = random_weights(problem)
    risk = ExactRisk(problem, loss)
    value, gradient = risk(weights)
    assert 0.0 < value < problem.tokens
    check_gradient(risk, weights, gradient)


@pytest.mark.parametrize("loss", [TokenF1(), EntityF1()])
@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_enough_sweeps_of_bp_are_exact(loss: SoftLoss, steps: str) -> None:
    problem = make_problem(4, steps)
    weights = random_weights(problem)
    longest = int(np.diff(problem.chains.start).max())
    exact = ExactRisk(problem, loss)(weights)
    bp = RiskUnder(problem, loss, lw.BP(iterations=longest + 1, tolerance=0, engine=lw.inference.Reference()))(weights)
    assert bp[0] == pytest.approx(exact[0], rel=1e-9)
    np.testing.assert_allclose(bp[1], exact[1], rtol=1e-6, atol=1e-9)
    short = RiskUnder(problem, loss, lw.BP(iterations=1, tolerance=0, engine=lw.inference.Reference()))(weights)
    assert abs(short[0] - exact[0]) > 1e-6  # one sweep is something else
