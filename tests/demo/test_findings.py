"""What the demo measures, against plain recomputation; and that it says what was found, whatever that is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.demo.findings import DemoProgress, Findings, merged, run_demo
from loopwise.demo.image import ImageAmounts, Restored, restore
from loopwise.demo.page import demo_page
from loopwise.demo.summary import claims, headline, loss_table, saving, sweeps_sentence
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
    TRUTH,
    DemoAmounts,
    DemoModel,
    DemoOutcome,
    DemoTrial,
    draw_problem,
    run_trial,
    trained,
    trials,
)
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.loss.calibration import reliability

TINY = DemoAmounts(
    side=4,
    given=0.25,
    hidden=0.25,
    models=2,
    train=64,
    test=32,
    burn_in=50,
    epochs=8,
    budgets=(5, 2),
    watched=2,
    horizon=4,
)


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


def test_reliabilities_add_up() -> None:
    rng = np.random.default_rng(0)
    said = [rng.random(50), 0.5 * rng.random(7), rng.random(1)]
    was = [rng.random(len(each)) < each for each in said]
    found = merged([reliability(p, y) for p, y in zip(said, was, strict=True)])
    expected = reliability(np.concatenate(said), np.concatenate(was))
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.confidence, expected.confidence)
    np.testing.assert_allclose(found.frequency, expected.frequency)
    assert (found.brier, found.error) == pytest.approx((expected.brier, expected.error))


def test_images_are_restored_by_a_model_that_never_saw_them() -> None:
    amounts = ImageAmounts(side=24, epochs=10)
    likely, lossy = (restore(goal, amounts, seed=0) for goal in (LIKELIHOOD, LOSS))
    np.testing.assert_array_equal(likely.noisy, lossy.noisy)  # both get the same
    assert likely.white.shape == likely.truth.shape == (24, 24)
    for found in (likely, lossy):
        assert 0 < found.wrong < 0.5 and found.loss < 0.25  # better than to know nothing
    assert likely.wrong != lossy.wrong


def test_the_whole_run_tells_of_every_step_and_processes_find_the_same() -> None:
    told: list[DemoProgress] = []
    image = ImageAmounts(side=16, epochs=1)
    small = replace(TINY, epochs=4, horizon=2)
    alone = run_demo(small, image, 3, told.append, workers=1)
    steps = 2 + len(trials(small)) + 2
    assert [each.done for each in told] == list(range(steps + 1)) and {each.of for each in told} == {steps}
    together = run_demo(small, image, 3, lambda progress: None, workers=2)
    assert (alone.workers, together.workers) == (1, 2)
    for findings in (alone, together):
        assert {each.trial for each in findings.outcomes} == set(trials(small))
    for goal, budget in ((TRUTH, 0), (LIKELIHOOD, 5), (LOSS, 2)):
        np.testing.assert_array_equal(alone.losses(goal, budget), together.losses(goal, budget))
    for goal in (LIKELIHOOD, LOSS):
        np.testing.assert_array_equal(alone.image_of(goal).white, together.image_of(goal).white)


# --- What is said of it ----------------------------------------------------------------------------------------------


def made_up(likely: tuple[float, ...], lossy: tuple[float, ...]) -> Findings:
    """Findings with these losses on two models under every budget; the true model has 0.1."""
    outcomes = []
    events = reliability([0.2, 0.4, 0.9], [0, 1, 1])
    after = dict.fromkeys((*range(TINY.horizon + 1), *TINY.budgets), 0.2)
    paths = np.linspace(0.1, 0.9, 3 * (TINY.horizon + 1)).reshape(-1, 3)
    for trial in trials(TINY):
        loss = {TRUTH: (0.1, 0.1), LIKELIHOOD: likely, LOSS: lossy}[trial.goal][trial.model]
        outcomes.append(DemoOutcome(trial, loss, loss, events, after, paths, [0.3, loss], 1.0))
    grey = np.full((4, 4), 0.5)
    restored = [
        Restored(goal, np.eye(4, dtype=np.int64), grey, grey, losses[0], losses[0])
        for goal, losses in ((LIKELIHOOD, likely), (LOSS, lossy))
    ]
    return Findings(TINY, ImageAmounts(), 0, outcomes, restored, 1.0)


def test_a_win_is_called_a_win() -> None:
    findings = made_up((0.3, 0.2), (0.15, 0.1))
    assert loss_table(findings)[1] == ["5", "0.2500", "0.1250", "50.0 %", "2 of 2", "0.2000"]
    assert "better on 2 of 2 models" in headline(findings)
    assert all(claim.holds for claim in claims(findings))


def test_a_defeat_is_called_a_defeat() -> None:
    findings = made_up((0.15, 0.15), (0.2, 0.14))
    assert saving(findings, 5) == "-13.3 %"  # from 0.15 to 0.17
    assert "better on 1 of 2 models" in headline(findings)
    assert not any(claim.holds for claim in claims(findings))
    page = demo_page(findings)
    assert headline(findings) in page and sweeps_sentence(findings) in page and "-13.3 %" in page


def test_what_is_not_finished_is_empty() -> None:
    whole = made_up((0.3, 0.2), (0.15, 0.1))
    some = Findings(TINY, ImageAmounts(), 0, [each for each in whole.outcomes if each.trial.budget != 2])
    assert loss_table(some)[2] == ["2", "", "", "", "", "0.2000"]  # the patient one is there
    assert loss_table(some)[1] == loss_table(whole)[1]
