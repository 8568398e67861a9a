"""Learners against independent forms of themselves, and all of them on a problem that can be learnt."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise import walk
from loopwise.apps.multilabel import (
    Enumeration,
    LabelCD,
    LabelHybrid,
    LabelLikelihood,
    LabelPegasos,
    LabelPerceptron,
    LabelSampleRank,
    LabelSampleRankSVM,
    LabelSampleRankSVM1,
)
from loopwise.apps.multilabel.model import MarginLearner
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import LabelWeights
from loopwise.walk.models.label_sets import label_model
from oracles.label_cases import LEARNERS, learn, learnt, make_problem


def error(weights: LabelWeights, problem: LabelProblem) -> float:
    return float((Enumeration().decide(weights, problem.inputs) != problem.gold).mean())


@pytest.mark.parametrize("name", LEARNERS)
def test_each_learns(name: str) -> None:
    train, test = make_problem(150, labels=4, seed=1), make_problem(200, labels=4, seed=2)
    weights, history = learnt(LEARNERS[name], train)
    most = min(test.gold.mean(), 1 - test.gold.mean())
    assert error(weights, test) < 0.5 * most
    assert history.losses and len(history) <= LEARNERS[name].limits.epochs
    again = learn(LEARNERS[name], train)
    np.testing.assert_array_equal(weights.vector, again.vector)


@pytest.mark.parametrize("name", ["hybrid", "pegasos", "perceptron", "likelihood", "erm"])
def test_a_single_label_has_no_pairs(name: str) -> None:
    problem = make_problem(60, labels=1)
    weights = learn(LEARNERS[name], problem)
    assert weights.pair.size == 0 and error(weights, problem) < 0.25


@pytest.mark.parametrize("kind", [LabelSampleRank, LabelSampleRankSVM, LabelSampleRankSVM1, LabelHybrid])
def test_steps_are_capped_by_the_length_of_inputs(kind: type[MarginLearner]) -> None:
    """A share of the step that meets a margin of 1: two rows of the input change, and two entries of each pair."""
    problem, share = make_problem(40, labels=3), 0.02
    dense = problem.inputs if isinstance(problem.inputs, np.ndarray) else problem.inputs.toarray()
    change = np.mean([2 * row @ row + 2 * 2 for row in dense])
    explicit = learn(kind(step=walk.MIRA(share / change), epochs=2, sweeps=4), problem)
    settled = learn(kind(share=share, epochs=2, sweeps=4), problem)
    np.testing.assert_allclose(settled.vector, explicit.vector, rtol=1e-9, atol=1e-15)
    assert np.abs(settled.vector - learn(kind(epochs=2, sweeps=4, share=0.2), problem).vector).max() > 1e-6
    with pytest.raises(ValueError, match="depends on the inputs"):
        kind().make(label_model(problem), seed=0)


def test_bad_options() -> None:
    for make in (
        lambda: LabelSampleRank(epochs=0),
        lambda: LabelSampleRank(share=0.0),
        lambda: LabelPegasos(0.0),
        lambda: LabelPerceptron(0),
        lambda: LabelLikelihood(-1.0),
    ):
        with pytest.raises(ValueError, match=r"positive|at least [01]"):
            make()
    with pytest.raises(ValueError, match="20 labels, not 21"):
        learn(LabelPerceptron(), make_problem(3, labels=21))
    with pytest.raises(ValueError, match="begins at the truth"):
        learn(LabelCD(start=walk.Start.RANDOM), make_problem(3))
