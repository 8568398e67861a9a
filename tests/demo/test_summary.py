"""A win is called a win, a defeat a defeat."""

from __future__ import annotations

from loopwise.demo.findings import Findings
from loopwise.demo.image import ImageAmounts
from loopwise.demo.summary import claims, headline, loss_table
from oracles.demo_cases import TINY, made_up


def test_a_win_is_called_a_win() -> None:
    findings = made_up((0.3, 0.2), (0.15, 0.1))
    assert loss_table(findings)[1] == ["5", "0.2500", "0.1250", "50.0 %", "2 of 2", "0.2000"]
    assert "better on 2 of 2 models" in headline(findings)
    assert all(claim.holds for claim in claims(findings))


def test_what_is_not_finished_is_empty() -> None:
    whole = made_up((0.3, 0.2), (0.15, 0.1))
    some = Findings(TINY, ImageAmounts(), 0, [each for each in whole.outcomes if each.trial.budget != 2])
    assert loss_table(some)[2] == ["2", "", "", "", "", "0.2000"]  # the patient one is there
    assert loss_table(some)[1] == loss_table(whole)[1]
