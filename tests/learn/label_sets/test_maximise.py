"""The best label sets: Pegasos, relaxations, the enumerated likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

import loopwise as lw
from loopwise.apps.multilabel import (
    Exactly,
    LabelLikelihood,
    LabelPegasos,
    LinearProgram,
)
from loopwise.learn.label_sets.maximise import all_sets
from loopwise.learn.label_sets.problem import LabelProblem
from oracles.label_cases import learn, make_problem, objective


def features(problem: LabelProblem, number: int, chosen: Any) -> Any:
    """All features of a set, from the definition."""
    made = problem.start()
    for label, share in enumerate(chosen):
        made.unary[label, :, 1] += share * problem.inputs[number]
        made.unary[label, :, 0] += (1 - share) * problem.inputs[number]
    pair = 0
    for one in range(problem.labels):
        for other in range(one + 1, problem.labels):
            made.pair[pair] += np.outer([1 - chosen[one], chosen[one]], [1 - chosen[other], chosen[other]])
            pair += 1
    return made.vector


def test_pegasos_is_its_definition() -> None:
    """The mean of the last epoch's iterates, each step written out with dense vectors."""
    problem, strength = make_problem(8, labels=3, features=2), 0.05
    found = learn(LabelPegasos(strength, epochs=3, maximiser=Exactly()), problem, seed=4)
    generator, theta, kept = np.random.default_rng(4), problem.start().vector, []
    sets = [tuple(map(int, row)) for row in all_sets(3)]
    for time in range(1, 3 * len(problem) + 1):
        number = int(generator.integers(0, len(problem), 1)[0])
        gold = problem.gold[number]
        scores = [theta @ features(problem, number, one) + (np.array(one) != gold).sum() for one in sets]
        answer = sets[int(np.argmax(scores))]
        step = features(problem, number, gold) - features(problem, number, answer)
        theta = (1 - 1 / time) * theta + step / (strength * time)
        kept.append(theta)
    np.testing.assert_allclose(found.vector, np.mean(kept[-len(problem) :], axis=0), rtol=1e-9, atol=1e-9)
    last = learn(LabelPegasos(strength, epochs=3, maximiser=Exactly(), average=False), problem, seed=4)
    np.testing.assert_allclose(last.vector, theta, rtol=1e-9, atol=1e-9)


def test_pegasos_approaches_the_best_objective() -> None:
    problem, strength = make_problem(30, labels=3, features=2), 0.1
    found = learn(LabelPegasos(strength, 80, maximiser=Exactly()), problem)
    long = objective(found, problem, strength)
    assert long < objective(learn(LabelPegasos(strength, 3, maximiser=Exactly()), problem), problem, strength)
    for seed in range(5):  # no point near by is better
        moved = found.like(found.vector + 0.1 * np.random.default_rng(seed).normal(size=len(found.vector)))
        assert objective(moved, problem, strength) > long - 1e-3


def test_the_relaxed_svm_bounds_the_exact_one() -> None:
    """On labels whose relaxations are tight both learn the same."""
    problem = make_problem(15, labels=2, features=2)
    exact = learn(LabelPegasos(0.5, 4, maximiser=Exactly()), problem)
    relaxed = learn(LabelPegasos(0.5, 4, maximiser=LinearProgram()), problem)
    np.testing.assert_allclose(exact.vector, relaxed.vector, atol=0.05)


def test_likelihood_is_the_enumerated_one() -> None:
    """The gradient vanishes where exact expected features plus the penalty are the observed ones."""
    problem = make_problem(25, labels=3, features=2)
    l2 = 2.0
    found = learn(LabelLikelihood(l2, 200, lw.Exact()), problem)
    sets = all_sets(3).astype(np.int64)
    gradient = l2 * found.vector
    for number in range(len(problem)):
        rows = np.repeat(problem.inputs[[number]], len(sets), axis=0)
        scores = found.score(rows, sets)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        gradient = gradient - features(problem, number, problem.gold[number])
        gradient += sum(share * features(problem, number, one) for share, one in zip(shares, sets, strict=True))
    assert np.abs(gradient).max() < 1e-2
