"""Chains with links: exact where they should be, and their views as chains."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.chain import Skip
from loopwise.notices import ConvergenceWarning
from oracles.chain_cases import random_weights
from oracles.skip_cases import EXACT, SKIP, skip_problem


def test_one_link_between_two_sentences_is_a_tree_and_bp_exact() -> None:
    """And a link within a sentence is a loop, where BP is close."""
    exact, loopy = (
        skip_problem(skip) for skip in (EXACT, Skip(SKIP, inference=lw.BP(iterations=200, tolerance=1e-12)))
    )
    weights = random_weights(exact)
    (unary, pair), link = exact.scores(weights), exact.link_scores(weights)
    one, two = (problem.linked.marginals(unary, pair, link).single for problem in (exact, loopy))
    np.testing.assert_allclose(two[:7], one[:7], atol=1e-9)  # document 0, and the sentence without a link
    assert 1e-6 < np.abs(two[7:] - one[7:]).max() < 0.05


def test_a_view_has_the_marginals_of_tags_and_steps() -> None:
    problem = skip_problem(EXACT)
    weights = random_weights(problem)
    (unary, pair), link = problem.scores(weights), problem.link_scores(weights)
    view = problem.linked.view(unary, pair, link)
    single = problem.chains.marginals(view.unary, view.pair, each=True)
    np.testing.assert_allclose(single.single, view.single, atol=1e-12)
    direct = problem.linked.marginals(unary, np.repeat(pair, problem.tokens, axis=0), link)
    linked = problem.linked.tokens
    np.testing.assert_allclose(single.double[linked], direct.double[linked], atol=1e-12)
    assert view.status is not None and view.status.exact


def test_answers_tell_that_inference_did_not_converge_and_training_does_not() -> None:
    problem = skip_problem(Skip(SKIP, inference=lw.BP(iterations=1, tolerance=1e-12)))
    weights = random_weights(problem)
    (unary, pair), link = problem.scores(weights), problem.link_scores(weights)
    problem.linked.marginals(unary, pair, link)
    with pytest.warns(ConvergenceWarning):
        view = problem.linked.view(unary, pair, link)
    assert view.status is not None and not view.status.converged
