"""Fair conditions: trainings against what they minimise, the miniature as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.learn.evaluate import evaluate
from loopwise.learn.system import System
from loopwise.potentials.tables import TablePotentials
from studies.erma.budgets import (
    BUDGET_PROTOCOLS,
    CONVERGED,
    F_LATER,
    LIKELIHOOD,
    RISK,
    SHUFFLED_LIKELIHOOD,
    TRUE,
    WITH_PRIOR,
    BudgetJob,
    BudgetProtocol,
    BudgetRun,
    inference,
    jobs_of,
    run_job,
)
from studies.erma.models import SampleSizes, Size, as_tables, load_model
from studies.erma.protocol import LOGL_TEST, MSE_TEST
from studies.erma.training import soft_risk
from studies.harness.results import QUICK
from studies.harness.study import StudyOrder, reproduce

SMALL = Size(9, 14)
TINY = BudgetProtocol(
    sizes=(SMALL, Size(8, 10)),
    sampling=SampleSizes(48, 30, 30),
    budgets=(10, 2),
    likelihood_epochs=80,  # of two steps each
    risk_epochs=300,
    warm_up=1,
    later_epochs=2,
    strengths=(10.0, 0.01),
    path_epochs=4,
)


def objective(folder: Path, run: BudgetRun, likelihood: bool, sweeps: int) -> float:
    """What a run's weights give on the training examples."""
    model = load_model(folder, SMALL, 1000, TINY.sampling, threads=1)
    test = LOGL_TEST if likelihood else MSE_TEST
    system = System(TablePotentials(model.graph, as_tables(run.tables)), inference(sweeps), test.decoder())
    with ignored_convergence():
        return soft_risk(system, model.train, test.goal())


def test_each_training_lowers_what_it_is_for(tmp_path: Path) -> None:
    for train in (LIKELIHOOD, WITH_PRIOR, RISK):
        run_job(BudgetJob(SMALL, train, 2), TINY, tmp_path, seed=0)
    runs = {
        train: BudgetRun.load(BudgetJob(SMALL, train, 2).path(tmp_path)) for train in (LIKELIHOOD, WITH_PRIOR, RISK)
    }
    for train, run in runs.items():
        assert run.objective == pytest.approx(objective(tmp_path, run, train != RISK, 2))
        assert set(run.losses) == {(test, 2) for test in ("MSE", "F", "L1", "LOGL")}
    assert runs[LIKELIHOOD].objective < objective(tmp_path, runs[RISK], True, 2)
    assert runs[RISK].objective < objective(tmp_path, runs[LIKELIHOOD], False, 2)
    assert runs[WITH_PRIOR].strength == 0.01  # at the other one, beliefs are hardly more than uniform
    assert np.abs(runs[WITH_PRIOR].tables).max() < np.abs(runs[LIKELIHOOD].tables).max()


def test_a_later_loss_begins_at_the_finished_model(tmp_path: Path) -> None:
    still = replace(TINY, later_epochs=1)
    run_job(BudgetJob(SMALL, F_LATER, 10), still, tmp_path, seed=0)
    first = BudgetRun.load(BudgetJob(SMALL, RISK, 10).path(tmp_path))  # trained on the way
    later = BudgetRun.load(BudgetJob(SMALL, F_LATER, 10).path(tmp_path))
    moved = np.abs(later.tables - first.tables).max()
    assert 0 < moved < 0.02  # two steps of Adam at 0.003
    assert set(first.losses) == {(test, sweeps) for test in ("MSE", "F", "L1", "LOGL") for sweeps in (10, 2)}


def test_random_order_is_another_inference_in_training_and_in_test(tmp_path: Path) -> None:
    """As many sweeps in another order: weights and losses differ, and the losses are those of that inference."""
    tiny = replace(TINY, shuffled=2)
    runs = []
    for train in (LIKELIHOOD, SHUFFLED_LIKELIHOOD):
        run_job(BudgetJob(SMALL, train, 2), tiny, tmp_path, seed=0)
        runs.append(BudgetRun.load(BudgetJob(SMALL, train, 2).path(tmp_path)))
    assert np.abs(runs[0].tables - runs[1].tables).max() > 1e-3
    model = load_model(tmp_path, SMALL, 1000, TINY.sampling, threads=1)
    system = System(
        TablePotentials(model.graph, as_tables(runs[1].tables)), inference(2, shuffled=True), MSE_TEST.decoder()
    )
    with ignored_convergence():
        assert evaluate(system, model.test, MSE_TEST.goal()) == pytest.approx(runs[1].losses["MSE", 2])


def test_the_truth_is_judged_under_every_budget(tmp_path: Path) -> None:
    run_job(BudgetJob(SMALL, TRUE, 10), TINY, tmp_path, seed=0)
    truth = BudgetRun.load(BudgetJob(SMALL, TRUE, 10).path(tmp_path))
    assert {sweeps for _, sweeps in truth.losses} == {10, 2, CONVERGED}
    model = load_model(tmp_path, SMALL, 1000, TINY.sampling, threads=1)
    assert np.array_equal(truth.tables, model.tables.numpy())


def test_the_part_is_resumed_and_its_page_prints_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from studies.erma.run import STUDY

    monkeypatch.setitem(BUDGET_PROTOCOLS, QUICK, replace(TINY, likelihood_epochs=4, risk_epochs=4))
    order = StudyOrder(tmp_path, parts=("budgets",), workers=1)
    _, complete = reproduce(STUDY, replace(order, minutes=1e-9))
    assert not complete
    results, complete = reproduce(STUDY, order)
    written = len(list((tmp_path / "runs/budgets").glob("budget-*.json")))
    assert complete and STUDY.steps(order) == len(jobs_of(TINY)) == written
    assert {claim.id: claim.holds is None for claim in results.claims}["fair-erm-better"] is False
    assert all(claim.rule for claim in results.claims)
    page = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "(Rule: " in page and (tmp_path / "budgets.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="neither tables nor figures"):
        reproduce(STUDY, StudyOrder(tmp_path, parts=("budgets", "table 3"), workers=1))
