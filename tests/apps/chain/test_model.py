"""Learners against what they should minimise: enumeration, finite differences, explicit averages."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.chain import (
    ChainERM,
    ChainLikelihood,
    ChainPerceptron,
    ChainSampleRank,
    ChainSVM,
    EntityF1,
)
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.risk import ExactRisk
from oracles.chain_cases import (
    learnt,
    make_problem,
)


def test_likelihood_training_reaches_the_minimum() -> None:
    """At the minimum the gradient vanishes, and no direction leads down."""
    problem = make_problem(30)
    learner = ChainLikelihood(l2=0.5, iterations=500, tolerance=1e-14)
    found, history = learnt(learner, problem)
    value, gradient = NegativeLogLikelihood(problem)(found)
    assert np.abs(gradient + 0.5 * found.vector).max() < 1e-3
    total = value + 0.25 * float(found.vector @ found.vector)
    assert history.losses[-1] == pytest.approx(total, rel=1e-9)
    assert all(late <= early + 1e-9 for early, late in zip(history.losses, history.losses[1:], strict=False))


def test_weights_only_for_what_is_seen() -> None:
    problem = make_problem(25)
    found = learnt(ChainLikelihood(l2=0.5, iterations=500, tolerance=1e-15, seen_only=True), problem, 0)[0]
    flat, seen = problem.unary.flat, np.zeros(problem.start().unary.shape, dtype=np.bool_)
    for token, tag in enumerate(problem.gold):
        seen[flat.index[flat.start[token] : flat.start[token + 1]], tag] = True
    assert not seen.all() and np.array_equal(found.unary != 0, seen)
    _, gradient = NegativeLogLikelihood(problem)(found)
    slopes = (gradient + 0.5 * found.vector)[: seen.size].reshape(seen.shape)
    assert np.abs(slopes[seen]).max() < 1e-3 < np.abs(slopes[~seen]).max()


def test_risk_training_lowers_the_risk() -> None:
    problem = make_problem(40)
    begin = ChainLikelihood(l2=5.0)
    start, _ = learnt(begin, problem)
    found, history = learnt(ChainERM(EntityF1(), l2=0.05, iterations=20, begin=begin), problem)
    assert {epoch.stage for epoch in history} == {0, 1}
    risk = ExactRisk(problem, EntityF1())
    assert risk(found)[0] < 0.7 * risk(start)[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ChainLikelihood(l2=-1), "l2"),
        (lambda: ChainLikelihood(iterations=0), "iterations"),
        (lambda: ChainPerceptron(epochs=0), "epochs"),
        (lambda: ChainSampleRank(sweeps=0), "sweeps"),
        (lambda: ChainSVM(c=0), "c must be"),
        (lambda: ChainSVM(cost=float("nan")), "cost"),
        (lambda: ChainERM(l2=float("inf")), "l2"),
    ],
)
def test_bad_options(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
