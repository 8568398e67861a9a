"""Skip chains: likelihood, risk, marginals and their gradients, against enumeration and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.chain import EntityF1, Skip, TokenHamming
from loopwise.learn.chain.skip import SkipLikelihood, SkipRisk
from oracles.chain_cases import check_gradient, random_weights
from oracles.skip_cases import EXACT, TAGS, assignments, log_sum, skip_problem

SOME = [["PER", None, "LOC"], ["LOC", "O"], ["O", None], [{"PER", "LOC"}, "O", "PER"]]


@pytest.mark.parametrize("steps", ["", "is_title[0]"])
@pytest.mark.parametrize("tags", [TAGS, SOME], ids=["known", "in part"])
def test_exact_likelihood_is_that_of_enumeration(tags: list, steps: str) -> None:
    problem = skip_problem(EXACT, tags, steps)
    weights = random_weights(problem)
    value, gradient = SkipLikelihood(problem)(weights)
    every, scores = assignments(problem, weights)
    allowed = problem.gold[:, None] == np.arange(problem.states) if problem.allowed is None else problem.allowed
    fit = allowed[np.arange(problem.tokens), every].all(axis=1)
    assert value == pytest.approx(log_sum(scores) - log_sum(scores[fit]), rel=1e-10)
    check_gradient(SkipLikelihood(problem), weights, gradient)
    of_links = slice(len(gradient) - problem.links.kinds * problem.states**2, None)
    assert np.abs(gradient[of_links]).max() > 0.01


def test_the_bethe_likelihood_has_the_gradient_that_it_says() -> None:
    problem = skip_problem(Skip(inference=lw.BP(iterations=300, tolerance=1e-13)))
    weights = random_weights(problem)
    value, gradient = SkipLikelihood(problem)(weights)
    assert value > 0
    check_gradient(SkipLikelihood(problem), weights, gradient)


@pytest.mark.parametrize("loss", [TokenHamming(), EntityF1()])
@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_risk_and_its_gradient(loss: object, steps: str) -> None:
    tags = [["B-PER", "O", "B-LOC"], ["B-LOC", "O"], ["O", "O"], ["B-PER", "O", "B-PER"]]
    for method in (lw.Exact(), lw.BP(iterations=4, tolerance=0, schedule=lw.Sequential())):
        problem = skip_problem(Skip(inference=method), tags, steps)
        weights = random_weights(problem)
        risk = SkipRisk(problem, loss)
        value, gradient = risk(weights)
        assert 0 < value < problem.tokens
        check_gradient(risk, weights, gradient)


def test_log_likelihoods_are_those_of_documents() -> None:
    problem = skip_problem(EXACT)
    weights = random_weights(problem)
    found = problem.log_likelihoods(weights, problem.gold)
    every, scores = assignments(problem, weights)
    right = (every == problem.gold).all(axis=1)
    assert found.shape == (2,)
    assert found.sum() == pytest.approx(float(scores[right][0]) - log_sum(scores), rel=1e-10)
    broken = problem.gold[:, None] == np.arange(problem.states)
    broken[0] = False
    assert problem.log_likelihoods(weights, problem.gold, broken)[0] == -np.inf
