"""The likelihood of chains and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from oracles.chain_cases import (
    all_paths,
    check_gradient,
    gold_path,
    make_problem,
    path_score,
    random_weights,
)


@pytest.mark.parametrize("steps", ["", "w[0] is_title[-1]"])
@pytest.mark.parametrize("threads", [1, 2])
def test_likelihood_and_its_gradient(steps: str, threads: int) -> None:
    problem = make_problem(3, steps, threads=threads)
    weights = random_weights(problem)
    value, gradient = NegativeLogLikelihood(problem)(weights)
    by_hand = 0.0
    for sentence in range(problem.sentences):
        scores = np.array([path_score(problem, weights, sentence, path) for path in all_paths(problem, sentence)])
        own = path_score(problem, weights, sentence, gold_path(problem, sentence))
        by_hand += float(np.logaddexp.reduce(scores)) - own
    assert value == pytest.approx(by_hand, rel=1e-10)
    check_gradient(NegativeLogLikelihood(problem), weights, gradient)
