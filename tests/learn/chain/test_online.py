"""Online learners of chains: the perceptron as the mean of its steps, the SVM by hand."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.chain import (
    ChainPerceptron,
    ChainSVM,
)
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from oracles.chain_cases import (
    all_paths,
    gold_path,
    learnt,
    make_problem,
    path_score,
)


def perceptron_by_hand(problem: ChainProblem, epochs: int, seed: int) -> np.ndarray:
    """The mean of all weights ever had, remembered one by one; best paths by enumeration."""
    rng, weights, history = np.random.default_rng(seed), problem.start(), []
    unary, steps = problem.unary.flat, problem.step_features()
    for _ in range(epochs):
        for sentence in rng.permutation(problem.sentences):
            if np.diff(problem.chains.start)[sentence]:
                paths = all_paths(problem, sentence)
                best = max(paths, key=lambda path: path_score(problem, weights, sentence, path))
                for path, sign in ((gold_path(problem, sentence), 1.0), (best, -1.0)):
                    for place, tag in enumerate(path):
                        token = problem.chains.start[sentence] + place
                        own = unary.index[unary.start[token] : unary.start[token + 1]]
                        np.add.at(weights.unary, (own, tag), sign)
                        if place:
                            cell = path[place - 1] * problem.states + tag
                            np.add.at(
                                weights.pair, (steps.index[steps.start[token] : steps.start[token + 1]], cell), sign
                            )
            history.append(weights.vector.copy())
    return np.mean(history, axis=0)


@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_perceptron_is_the_mean_of_its_steps(steps: str) -> None:
    problem = make_problem(6, steps)
    found = learnt(ChainPerceptron(epochs=3), problem, 4)[0]
    np.testing.assert_allclose(found.vector, perceptron_by_hand(problem, 3, 4), atol=1e-12)


def svm_objective(problem: ChainProblem, weights: ChainWeights, c: float) -> float:
    total = 0.5 * float(weights.vector @ weights.vector)
    for sentence in range(problem.sentences):
        gold = gold_path(problem, sentence)
        own = path_score(problem, weights, sentence, gold)
        values = [
            sum(a != b for a, b in zip(path, gold, strict=True)) + path_score(problem, weights, sentence, path) - own
            for path in all_paths(problem, sentence)
        ]
        total += c * max(values)
    return total


def test_svm_approaches_its_minimum() -> None:
    """The objective, by enumeration, is near the best value that many more steps find, and far from that of zero."""
    problem, c = make_problem(8, seed=3), 0.05
    some = svm_objective(problem, learnt(ChainSVM(c, epochs=50), problem, 0)[0], c)
    many = svm_objective(problem, learnt(ChainSVM(c, epochs=3000), problem, 0)[0], c)
    assert many <= some * 1.001 and some < 1.1 * many < 0.9 * svm_objective(problem, problem.start(), c)


def test_the_first_step_of_the_svm_by_hand() -> None:
    """From zero the best path with costs is the first wrong one everywhere; the step is C n times the difference."""
    problem = make_problem(1, seed=3)
    found = learnt(ChainSVM(c=0.5, epochs=1), problem, 0)[0]
    gold = gold_path(problem, 0)
    worst = max(
        all_paths(problem, 0),
        key=lambda path: (sum(a != b for a, b in zip(path, gold, strict=True)), [-x for x in path]),
    )
    by_hand = problem.start()
    unary, steps = problem.unary.flat, problem.step_features()
    for path, sign in ((gold, 0.5), (worst, -0.5)):
        for place, tag in enumerate(path):
            np.add.at(by_hand.unary, (unary.index[unary.start[place] : unary.start[place + 1]], tag), sign)
            if place:
                cell = path[place - 1] * problem.states + tag
                np.add.at(by_hand.pair, (steps.index[steps.start[place] : steps.start[place + 1]], cell), sign)
    np.testing.assert_allclose(found.unary.sum(axis=0), by_hand.unary.sum(axis=0), atol=1e-12)
