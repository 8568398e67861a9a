"""A win is called a win, a defeat a defeat."""

from __future__ import annotations

import numpy as np

from loopwise.demo.findings import Findings
from loopwise.demo.image import ImageAmounts, Restored
from loopwise.demo.page import demo_page
from loopwise.demo.summary import claims, headline, loss_table, saving, sweeps_sentence
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
    TRUTH,
    DemoOutcome,
    trials,
)
from loopwise.loss.calibration import reliability
from oracles.demo_cases import TINY

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
