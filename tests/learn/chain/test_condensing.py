"""Features of the same tokens are joined, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.chain import (
    ChainLikelihood,
)
from loopwise.learn.chain.condensing import Condensed
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from oracles.chain_cases import (
    learnt,
    make_problem,
    random_weights,
)


@pytest.mark.parametrize("steps", ["", "w[0] suffix2[0]"])
def test_condensing_keeps_scores_and_the_minimum(steps: str) -> None:
    problem = make_problem(25, steps)
    small = Condensed.of(problem)
    assert small.problem.unary.features < problem.unary.features
    weights = random_weights(small.problem)
    whole = small.widen(weights)
    for mine, theirs in zip(small.problem.scores(weights), problem.scores(whole), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert float(weights.vector @ weights.vector) == pytest.approx(float(whole.vector @ whole.vector))
    np.testing.assert_allclose(small.narrow(whole).vector, weights.vector, atol=1e-12)
    # At the minimum found in the small problem, the gradient of the whole one vanishes.
    found = learnt(ChainLikelihood(l2=0.5, iterations=500, tolerance=1e-15), problem, 0)[0]
    _, gradient = NegativeLogLikelihood(problem)(found)
    assert np.abs(gradient + 0.5 * found.vector).max() < 1e-3


def test_condensing_joins_just_the_features_of_the_same_tokens() -> None:
    problem = make_problem(25)
    dense = np.zeros((problem.tokens, problem.unary.features), dtype=np.int64)
    flat = problem.unary.flat
    np.add.at(dense, (np.repeat(np.arange(problem.tokens), np.diff(flat.start)), flat.index), 1)
    groups = Condensed.of(problem).unary
    _, expected = np.unique(dense, axis=1, return_inverse=True)
    pairs = set(zip(groups.of.tolist(), expected.reshape(-1).tolist(), strict=True))
    assert len(pairs) == len(groups.size) == expected.max() + 1  # the same partition
