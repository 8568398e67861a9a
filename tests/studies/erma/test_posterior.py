"""The study of posteriors: one small model, claims by hand, and the part as a whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studies.erma.budgets import BudgetProtocol
from studies.erma.models import SampleSizes, Size
from studies.erma.posterior import (
    ITEM,
    PLAIN,
    POINT,
    POSTERIOR,
    POSTERIOR_PROTOCOLS,
    PosteriorProtocol,
    PosteriorRuns,
    claims,
    jobs_of,
)
from studies.erma.run import STUDY
from studies.harness.results import QUICK
from studies.harness.study import StudyOrder, reproduce

SIZES = tuple(Size(8, edges) for edges in range(8, 14))
TINY = PosteriorProtocol(
    sizes=SIZES[:1],
    training=BudgetProtocol(
        sampling=SampleSizes(train=60, test=40, burn_in=30), likelihood_epochs=6, risk_epochs=6,
        strengths=(0.03, 0.003), path_epochs=3,
    ),
    sweeps=3,
    rank=5,
    samples=8,
)  # fmt: skip


def put(folder: Path, better: bool) -> PosteriorRuns:
    study = PosteriorRuns(folder, replace(TINY, sizes=SIZES))
    for number, job in enumerate(jobs_of(study.protocol)):
        gap = (-0.05 if better else 0.05) * (1 + 0.1 * number)
        rows = {
            POINT: {"log_loss": 0.6, "brier": 0.2, "calibration": 0.03},
            POSTERIOR: {
                "log_loss": 0.6 + gap,
                "brier": 0.2,
                "calibration": 0.03 + gap,
                "covered": 0.9 if better else 0.5,
            },
            PLAIN: {"log_loss": 0.6, "brier": 0.2, "calibration": 0.03},
        }
        job.path(folder).write_text(json.dumps({"rows": rows, "strength": 0.01, "seconds": 1.0}))
    return study


@pytest.mark.parametrize("better", [True, False])
def test_claims_follow_the_numbers(tmp_path: Path, better: bool) -> None:
    found = claims(put(tmp_path, better))
    assert [claim.holds for claim in found] == [better] * 4 and all(claim.rule for claim in found)
    jobs_of(replace(TINY, sizes=SIZES))[0].path(tmp_path).unlink()
    assert all(claim.holds is None for claim in claims(PosteriorRuns(tmp_path, replace(TINY, sizes=SIZES))))


@pytest.mark.filterwarnings("ignore::loopwise.notices.GradientWarning")  # so short a training ends at no minimum
def test_the_part_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POSTERIOR_PROTOCOLS, QUICK, TINY)
    order = StudyOrder(tmp_path, parts=("posterior",), workers=1)
    results, complete = reproduce(STUDY, order)
    assert complete and STUDY.steps(order) == 1
    found = {(cell.row, cell.column): cell.ours for cell in results.of_item(ITEM)}
    assert {row for row, _ in found} == {POINT, POSTERIOR, PLAIN}
    assert 0 < found[POSTERIOR, "truth in the 90 % interval"] <= 1 and 0 < found[POSTERIOR, "width of the interval"] < 1
    assert found[POINT, "log-loss"] != found[POSTERIOR, "log-loss"] != found[PLAIN, "log-loss"]
    assert all(claim.rule for claim in results.claims) and "(Rule: " in (tmp_path / "index.md").read_text("utf-8")
    with pytest.raises(ValueError, match="neither tables nor figures"):
        reproduce(STUDY, StudyOrder(tmp_path, parts=("posterior", "table 3"), workers=1))
