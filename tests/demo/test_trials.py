"""Trials of the demo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
    TRUTH,
    DemoModel,
    DemoTrial,
    draw_problem,
    run_trial,
    trained,
    trials,
)
from loopwise.inference.loss_of_beliefs import ignored_convergence
from oracles.demo_cases import TINY


@pytest.fixture(scope="module")
def problem() -> DemoModel:
    return draw_problem(TINY, seed=0, model=1)


def squared_error(potentials: torch.nn.Module, sweeps: int, examples: lw.Examples) -> float:
    """By the reference engine, without losses, decoders or systems."""
    bp = lw.BP(iterations=sweeps, tolerance=0, engine=lw.inference.Reference())
    with torch.no_grad():
        beliefs = bp(examples.graph, potentials(), examples.evidence).variables[..., 1].numpy()
    outputs = examples.roles == lw.Role.OUTPUT
    return float(((beliefs - examples.values) ** 2)[outputs].mean())


def test_every_budget_and_goal_on_every_model() -> None:
    found = trials(TINY)
    assert len(found) == len(set(found)) == 2 + 2 * 2 * 2
    assert {(each.goal, each.budget) for each in found if each.model == 1} == {
        (TRUTH, 0), (LIKELIHOOD, 5), (LOSS, 5), (LIKELIHOOD, 2), (LOSS, 2),
    }  # fmt: skip


def test_models_differ_and_can_be_drawn_again(problem: DemoModel) -> None:
    again, other = draw_problem(TINY, seed=0, model=1), draw_problem(TINY, seed=0, model=0)
    np.testing.assert_array_equal(problem.test.values, again.test.values)
    assert not torch.equal(problem.truth.tables[0], other.truth.tables[0])
    weights = problem.truth.tables[0].detach()[:, 1, 1]
    assert len(weights) == 24 and TINY.weakest <= weights.min() < weights.max() <= TINY.strongest
    assert (len(problem.train), len(problem.test)) == (64, 32)
    counts = {role: int((problem.train.roles[0] == role).sum()) for role in lw.Role}
    assert (counts[lw.Role.INPUT], counts[lw.Role.HIDDEN], counts[lw.Role.OUTPUT]) == (4, 4, 8)


def test_outcomes_are_those_of_the_beliefs(problem: DemoModel) -> None:
    outcome = run_trial(DemoTrial(1, LOSS, 2), problem, TINY, seed=0)
    system = trained(DemoTrial(1, LOSS, 2), problem.train, TINY, seed=0)
    for sweeps in (0, 1, 4):
        assert outcome.after[sweeps] == pytest.approx(squared_error(system.potentials, sweeps, problem.test), rel=1e-9)
    assert outcome.loss == pytest.approx(outcome.after[2], rel=1e-3)  # the same budget, but for runs that converged
    assert len(outcome.course) == TINY.epochs and outcome.course[-1] == outcome.loss
    assert outcome.course[0] > outcome.course[-1]
    assert outcome.reliability.brier == pytest.approx(outcome.loss, rel=1e-9)
    outputs = problem.test.outputs[0].numpy()
    assert outcome.paths.shape == (TINY.horizon + 1, outputs.sum())
    bp = lw.BP(iterations=3, tolerance=0, engine=lw.inference.Reference())
    with torch.no_grad():
        beliefs = bp(problem.test.graph, system.potentials(), problem.test[0].evidence).variables[0].numpy()
    right = problem.test.values[0]
    np.testing.assert_allclose(outcome.paths[3], beliefs[outputs, right[outputs]], rtol=1e-9)


def test_the_truth_is_not_trained(problem: DemoModel) -> None:
    outcome = run_trial(DemoTrial(1, TRUTH, 0), problem, TINY, seed=0)
    assert outcome.loss == pytest.approx(squared_error(problem.truth, 500, problem.test), rel=1e-4)


def test_each_training_lowers_what_it_is_for(problem: DemoModel) -> None:
    """On the training examples, from the same start: else the comparison would be of something else."""
    many = replace(TINY, epochs=40)
    systems = {goal: trained(DemoTrial(1, goal, 2), problem.train, many, seed=0) for goal in (LIKELIHOOD, LOSS)}
    with ignored_convergence():
        found = {
            goal: lw.evaluate(system, problem.train, [lw.loss.MSE(), lw.loss.SurrogateLikelihood()])
            for goal, system in systems.items()
        }
    assert found[LOSS][0] < found[LIKELIHOOD][0]
    assert found[LIKELIHOOD][1] < found[LOSS][1]
