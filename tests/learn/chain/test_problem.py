"""Losses of elements, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

import loopwise as lw
from loopwise.apps.chain.model import objective_of
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.problem import ChainWeights
from oracles.crf_cases import STATES, Oracle, problem_of, small


@pytest.mark.parametrize(
    "loss, weights",
    [
        (lw.loss.FBeta(beta=2.0), None),
        (lw.loss.MSE(), np.array([0.3, 2.0, 1.1])),
        (lw.loss.UnivariateLikelihood(), np.array([0.3, 2.0, 1.1])),
        (lw.loss.SmoothError(sharpness=3.0), None),
    ],
)
def test_losses_of_elements_by_enumeration(loss: lw.loss.Loss, weights: np.ndarray | None) -> None:
    x, y = small()
    oracle, problem = Oracle(x, y), problem_of(x, y)
    theta = np.random.default_rng(3).normal(size=len(problem.start().vector))
    positive = 1 if isinstance(loss, lw.loss.FBeta) else None
    risk, first = objective_of(loss, problem, np.arange(3), positive, weights)
    assert isinstance(first, NegativeLogLikelihood)
    like: ChainWeights = problem.start()
    value, gradient = risk(like.like(theta))
    right = []
    for number in range(len(x)):
        shares, paths = oracle.distribution(theta, number), oracle.paths[number]
        right.append(np.stack([(shares[:, None] * (paths == state)).sum(0) for state in range(STATES)], axis=1))
    single, gold = np.concatenate(right), np.concatenate(y)
    chosen = single[np.arange(len(gold)), gold]
    if isinstance(loss, lw.loss.FBeta):
        agreed, decided, there = chosen[gold == 1].sum(), single[:, 1].sum(), (gold == 1).sum()
        hand = 1 - 5 * agreed / (4 * there + decided)
    elif isinstance(loss, lw.loss.SmoothError):
        others = np.where(np.arange(STATES) == gold[:, None], -1.0, single).max(1)
        hand = (1 / (1 + np.exp(-3.0 * (others - chosen)))).mean()
    else:
        squares = ((single - np.eye(STATES)[gold]) ** 2).sum(1) / 2
        each = squares if isinstance(loss, lw.loss.MSE) else -np.log(chosen)
        hand = (weights[gold] * each).sum() / weights[gold].sum()
    assert value == pytest.approx(hand * len(gold), abs=1e-9)
    assert check_grad(lambda point: risk(like.like(point))[0], lambda point: gradient, theta) < 1e-5
