"""The cost-aware study: its data, its averages and claims by hand, and the whole of it in miniature."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from studies.cost_aware import models as cost_aware_models
from studies.cost_aware import run as cost_aware
from studies.cost_aware.claims import claims
from studies.cost_aware.models import Channel, Mixed, Patterned, Synthetic, mixed, pairs_only, patterned, synthetic
from studies.cost_aware.protocol import (
    ALL_FOUR,
    BOTH,
    DENSE,
    ERM,
    EVIDENCE,
    FIGURE1,
    FIXED,
    GATE_CURVES,
    GATES,
    GROUP,
    L1_NAME,
    LEARNED,
    LIKELIHOOD,
    MAGNITUDE,
    MESSAGES,
    OURS,
    PROTOCOLS,
    REFITTED,
    SPARSE,
    STOPPING,
    STRONG,
    SWEEPS,
    TOGETHER,
    TOLERANCE,
    CostAwareProtocol,
    CurveJob,
    jobs,
)
from studies.cost_aware.tables import CALL, MESSAGE, PER_MESSAGE, CostAwareRuns, areas, averaged, cells, interpolated
from studies.harness.claims import MISSING
from studies.harness.results import FILE, FULL, QUICK, Cell, Claim, Results
from studies.harness.study import StudyOrder, judge_again, reproduce

SMALL = Synthetic(variables=8, factors=6, train=40, test=30, burn_in=20, scale=0.5)
TINY = CostAwareProtocol(
    truths=1,
    synthetic=SMALL,
    strong=replace(SMALL, scale=1.0),
    mixed=Mixed(side=3, train=40, test=30, burn_in=20),
    patterned=Patterned(side=3, train=40, test=30, burn_in=20),
    gate_limit=2,
    gate_prices=(0.05,),
    gate_fixed=(1, 2),
    gate_epochs=1,
    prices=(0.01, 1.0),
    strengths=(1e-4, 1e-2),
    group_strengths=(1e-3,),
    counts=(5,),
    curves=(OURS, REFITTED, L1_NAME, GROUP, MAGNITUDE),
    strong_curves=(OURS, L1_NAME),
    dense_epochs=2,
    epochs=2,
    pruned_epochs=2,
    refit=1,
    sweeps=(1, 2, 3),
    limit=3,
    stopping_prices=(0.01, 0.3),
    both_prices=(0.01, 0.3),
    stopping_epochs=2,
    fixed=(1, 3),
    tolerances=(0.1,),
    policy_steps=20,
)


# --- Data ------------------------------------------------------------------------------------------------------------


def test_the_learner_of_figure_1_has_4900_parameters() -> None:
    graph = pairs_only(50)
    assert sum(param.numel() for param in lw.TablePotentials(graph).parameters()) == 4900
    assert PROTOCOLS[FULL].strong == Synthetic(50, 200, 4, 1000, 1000, 1000, 1.0)
    assert PROTOCOLS[FULL].synthetic == replace(PROTOCOLS[FULL].strong, scale=0.5)
    assert PROTOCOLS[FULL].truths >= 10


def test_data_is_drawn_once_and_in_thirds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = synthetic(SMALL, 0, 0, tmp_path)
    counts = [int((first.train.roles[0] == role).sum()) for role in (lw.Role.INPUT, lw.Role.HIDDEN, lw.Role.OUTPUT)]
    assert counts == [2, 2, 4] and len(first.train) == 40 and len(first.test) == 30
    other = synthetic(SMALL, 0, 1)
    assert not np.array_equal(first.train.values, other.train.values)
    monkeypatch.setattr(cost_aware_models, "sample_examples", lambda *_, **__: pytest.fail("sampled again"))
    assert np.array_equal(synthetic(SMALL, 0, 0, tmp_path).test.values, first.test.values)


def test_hard_examples_see_less(tmp_path: Path) -> None:
    size = Mixed(side=4, train=200, test=200, burn_in=20, erased=(0.1, 0.9), flipped=0.2)
    data = mixed(size, 0, 0, tmp_path)
    signal = data.test.inputs["signal"]
    seen = (signal != 0).double().mean(1)
    easy, hard = seen[data.kinds == 0], seen[data.kinds == 1]
    assert len(easy) + len(hard) == 200 and float(easy.mean()) > 0.8 and float(hard.mean()) < 0.2
    right = ((signal > 0) == torch.from_numpy(data.test.values == 1))[signal != 0].double().mean()
    assert abs(float(right) - 0.8) < 0.06
    assert float(signal.abs().max()) == pytest.approx(math.log(4.0))
    wide = mixed(size, 0, 0, tmp_path, neighbours=8)
    assert np.array_equal(wide.test.values, data.test.values) and torch.equal(wide.test.inputs["signal"], signal)
    tables = Channel(data.test.graph, 0.5)(signal[:2])
    assert torch.equal(tables["unary"][..., 1], signal[:2]) and tables["pair"].shape == (24, 2, 2)


def test_patterns_show_a_part_of_one_half(tmp_path: Path) -> None:
    data = patterned(Patterned(side=4, train=40, test=40, burn_in=10), 0, 0, tmp_path)
    shown = (data.test.roles == lw.Role.INPUT).reshape(40, 4, 4)
    assert len(np.unique(shown, axis=0)) == 4 and shown.any()
    for kind, other in enumerate((np.s_[:, 2:], np.s_[:, :2], np.s_[2:], np.s_[:2])):
        assert not shown[data.kinds == kind][0][other].any()  # nothing of the other half
    assert data.test.graph.group("pair").count == 42 and set(np.unique(data.test.roles)) == {
        lw.Role.INPUT,
        lw.Role.OUTPUT,
    }


# --- Averages and claims ---------------------------------------------------------------------------------------------


def row(setting: float, loss: float, **more: float) -> dict[str, Any]:
    defaults = {"messages": 1.0, "sent": 1.0, "sweeps": 1.0, "microseconds": 1.0}
    return {"setting": setting, "loss": loss, "train": loss, "factors": 1, **defaults, **more}


def put(folder: Path, study: str, curve: str, *truths: list[dict[str, Any]]) -> None:
    for truth, points in enumerate(truths):
        CurveJob(study, truth, curve).path(folder).write_text(json.dumps({"points": points, "seconds": 1.0}))


def line(*pairs: tuple[float, float], key: str = "messages") -> list[dict[str, Any]]:
    return [row(k, loss, **{key: cost}) for k, (cost, loss) in enumerate(pairs)]


def test_averages_over_truths(tmp_path: Path) -> None:
    put(tmp_path, FIGURE1, OURS, line((100, 0.2), (10, 0.3)), line((300, 0.4), (30, 0.5)))
    study = CostAwareRuns(tmp_path, CostAwareProtocol(truths=2))
    first, second = averaged(study, FIGURE1, OURS)
    assert (first.cost, first.loss, first.n) == (200, pytest.approx(0.3), 2)
    assert first.error == pytest.approx(0.1) and second.cost == 20


def test_mixtures_at_equal_cost() -> None:
    points = line((100, 0.2), (300, 0.1), (200, 0.3))  # the last is beaten by the first
    assert interpolated(points, 200.0, "messages") == pytest.approx(0.15)
    assert interpolated(points, 50.0, "messages") == math.inf
    assert interpolated(points, 1e6, "messages") == pytest.approx(0.1)
    bent = line((1, 1.0), (5, 0.9), (6, 0.0))  # the second is worse than a mixture of the others
    assert interpolated(bent, 5.0, "messages") == pytest.approx(0.2)


def everything(folder: Path, better: bool) -> CostAwareRuns:
    """Numbers for which all claims hold, or none does."""
    protocol = CostAwareProtocol(truths=1, synthetic=SMALL)
    whole = 8 * 7
    good = line(*[(share * whole, 0.19 - 0.01 * share) for share in (0.01, 0.1, 0.5, 1.0)])
    bad = line(*[(share * whole, 0.24 - 0.02 * share) for share in (0.01, 0.1, 0.5, 1.0)])
    for points in (good, bad):
        for place, point in enumerate(points):
            point["sent"], point["microseconds"] = place, place if better else -place
    ours, theirs = (good, bad) if better else (bad, good)
    for study in (FIGURE1, STRONG):
        put(folder, study, OURS, ours)
        for curve in (L1_NAME, GROUP, MAGNITUDE):
            put(folder, study, curve, theirs)
        put(folder, study, DENSE, line((whole, 0.18)))
    erm = [row(1, 0.3), row(2, 0.2), row(3, 0.2 if better else 0.1)]
    put(folder, SWEEPS, ERM, erm)
    put(folder, SWEEPS, LIKELIHOOD, [row(k, 0.25 + (0.2 if better else -0.2)) for k in (1, 2, 3)])
    fast = line((2.0, 0.1), (4.0, 0.05), key="sweeps")
    slow = line((2.0, 0.2), (4.0, 0.1), key="sweeps")
    learned, fixed = (fast, slow) if better else (slow, fast)
    for point in learned:
        point["sweeps 0"], point["sweeps 1"] = (1.0, 3.0) if better else (3.0, 1.0)
    put(folder, STOPPING, LEARNED, learned)
    put(folder, STOPPING, FIXED, fixed)
    put(folder, STOPPING, TOLERANCE, fixed)
    small, large = line((100, 0.2), key="sent"), line((10, 0.1), (1000, 0.3), key="sent")
    put(folder, BOTH, TOGETHER, large if better else small)
    for curve in (SPARSE, LEARNED, FIXED):
        put(folder, BOTH, curve, small if better else large)
    for curve in GATE_CURVES:
        winning = {ALL_FOUR: 3, MESSAGES: 2, EVIDENCE: 2}.get(curve, 1)
        points = line((1000 / 10 ** (winning if better else -winning), 0.1), (1e6, 0.3), key="sent")
        for point in points:
            point["microseconds"] = point["sent"]
        put(folder, GATES, curve, points)
    return CostAwareRuns(folder, protocol)


@pytest.mark.parametrize("better", [True, False])
def test_claims_follow_the_numbers(tmp_path: Path, better: bool) -> None:
    found = {claim.id: claim for claim in claims(everything(tmp_path, better))}
    wrong = {name: claim.evidence for name, claim in found.items() if claim.holds is not better}
    assert not wrong
    assert all(claim.rule for claim in found.values())


def test_an_area_may_be_smaller_on_one_truth_only(tmp_path: Path) -> None:
    small, large = line((100, 0.2), (1000, 0.3), key="sweeps"), line((10, 0.1), (1000, 0.3), key="sweeps")
    for point in (*small, *large):
        point["sweeps 0"], point["sweeps 1"] = 1.0, 3.0
    for won, holds in ((3, True), (2, False)):
        put(tmp_path, STOPPING, LEARNED, *[large] * won, *[small] * (4 - won))
        put(tmp_path, STOPPING, FIXED, *[small] * won, *[large] * (4 - won))
        found = {claim.id: claim for claim in claims(CostAwareRuns(tmp_path, CostAwareProtocol(truths=4)))}
        assert found["stopping-area-fixed"].holds is holds and f"on {won} of 4" in found["stopping-area-fixed"].evidence


def test_levels_that_one_curve_did_not_reach_decide_nothing(tmp_path: Path) -> None:
    """L1 has nothing below the dense model, and ours is worse wherever both are: that is no win."""
    study = everything(tmp_path, True)
    put(tmp_path, FIGURE1, L1_NAME, line((8 * 7, 0.16)))
    put(tmp_path, FIGURE1, OURS, line((1.0, 0.2), (8 * 7, 0.2)))
    found = {claim.id: claim for claim in claims(CostAwareRuns(tmp_path, study.protocol))}
    assert found["figure1-l1"].holds is None and "reached by 1 and 0 of 1" in found["figure1-l1"].evidence


def test_truths_that_one_curve_lacks_are_left_out(tmp_path: Path) -> None:
    study = everything(tmp_path, True)
    hard = line(*[(share * 8 * 7, 0.9) for share in (0.01, 0.1, 0.5, 1.0)])
    put(tmp_path, FIGURE1, OURS, line(*[(share * 8 * 7, 0.19) for share in (0.01, 0.1, 0.5, 1.0)]), hard)
    found = {claim.id: claim for claim in claims(CostAwareRuns(tmp_path, replace(study.protocol, truths=2)))}
    assert found["figure1-l1"].holds is True  # the second truth has no L1 yet


def test_a_policy_without_a_choice_decides_nothing(tmp_path: Path) -> None:
    """Every example stops after the first sweep, as with a fixed number of one."""
    study = everything(tmp_path, True)
    learned = line((1.0, 0.3), (2.0, 0.1), (4.0, 0.05), key="sweeps")
    for point in learned:
        point["sweeps 0"], point["sweeps 1"] = (1.0, 1.0) if point["sweeps"] == 1 else (1.0, 3.0)
    put(tmp_path, STOPPING, LEARNED, learned)
    put(tmp_path, STOPPING, FIXED, line((1.0, 0.3), (2.0, 0.2), (4.0, 0.1), key="sweeps"))
    found = {claim.id: claim for claim in claims(CostAwareRuns(tmp_path, study.protocol))}
    assert found["stopping-fixed"].holds and found["stopping-easy"].holds
    assert "no choice is left" in found["stopping-fixed"].evidence


def test_likelihood_is_compared_limit_by_limit(tmp_path: Path) -> None:
    """The first limit is missing on one side: the others must not move up."""
    study = everything(tmp_path, True)
    put(tmp_path, SWEEPS, ERM, [row(1, 0.5), row(2, 0.3), row(3, 0.1)])
    put(tmp_path, SWEEPS, LIKELIHOOD, [row(2, 0.4), row(3, 0.2)])
    found = {claim.id: claim for claim in claims(CostAwareRuns(tmp_path, study.protocol))}
    assert found["sweeps-likelihood"].holds
    assert "2 sweeps 0.3000 against 0.4000" in found["sweeps-likelihood"].evidence


def test_nothing_is_claimed_of_nothing(tmp_path: Path) -> None:
    found = claims(CostAwareRuns(tmp_path, CostAwareProtocol(truths=1)))
    assert all(claim.holds is None for claim in found)
    assert list(cells(CostAwareRuns(tmp_path, CostAwareProtocol(truths=1)))) == []


def test_areas_by_hand(tmp_path: Path) -> None:
    study = everything(tmp_path, True)
    # The corner is at 1000 messages and a loss of .3; one point at 10 and .1 covers two powers of ten times .2.
    assert areas(study, BOTH, TOGETHER)[0] == pytest.approx(2 * 0.2)
    assert areas(study, BOTH, SPARSE)[0] == pytest.approx(1 * 0.1)


def test_time_is_a_line_in_messages(tmp_path: Path) -> None:
    points = [row(k, 0.1, sent=sent, microseconds=4 + 0.002 * sent) for k, sent in enumerate((100.0, 300.0, 900.0))]
    put(tmp_path, GATES, FIXED, points)
    found = {cell.column: cell.ours for cell in cells(CostAwareRuns(tmp_path, TINY)) if PER_MESSAGE in cell.item}
    assert found == {CALL: pytest.approx(4), MESSAGE: pytest.approx(2)}


# --- The whole -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::loopwise.notices.LoopwiseWarning")  # of pruning everything, at the highest price
def test_the_study_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    half, complete = reproduce(cost_aware.STUDY, StudyOrder(folder, minutes=1e-9))
    assert not complete and not half.cells
    results, complete = reproduce(cost_aware.STUDY, StudyOrder(folder))
    assert complete and {cell.item for cell in results.cells} >= set(cost_aware.ITEMS.values())
    stored = json.loads((folder / FILE).read_text())
    assert stored["paper"] == "cost-aware" and {claim["id"] for claim in stored["claims"]} >= {
        "two-sweeps",
        "both-area",
    }
    dense = next(cell for cell in results.cells if cell.row == DENSE)
    assert dense.more["messages"] == 2 * 28
    for cell in results.of_item(cost_aware.ITEMS[FIGURE1]):
        assert cell.more["messages"] == 2 * cell.more["factors"] and 0 <= cell.ours <= 1  # type: ignore[operator]
    for name in ("page.html", "index.md", "figure1.png", "stopping.png"):
        assert (folder / name).stat().st_size > 0
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json")}
    assert len(before) == len(jobs(TINY)) + 1  # refitted systems come with those that they were
    again, complete = reproduce(cost_aware.STUDY, StudyOrder(folder, tell=lambda *_: pytest.fail("ran again")))
    assert complete and [cell.ours for cell in again.cells] == [cell.ours for cell in results.cells]
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json")} == before


@pytest.mark.filterwarnings("ignore::loopwise.notices.LoopwiseWarning")
def test_one_study_alone_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the runs of a finished study are gone, one part of it can be run without losing what they gave."""
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    kept = Results.open(tmp_path, "cost-aware", QUICK, 0)
    kept.put(Cell("Figure 1", OURS, "0.01", 0.125))
    kept.put(Cell("Learned stopping", FIXED, "1", 0.5))
    kept.put(Cell("Figure 1, at equal cost", OURS, "2%", 0.25))
    kept.claim(Claim("figure1-l1", "Below.", True, "so"), Claim("stopping-fixed", "Better.", True, "so"))
    (tmp_path / "stopping.png").write_bytes(b"old")
    results, complete = reproduce(cost_aware.STUDY, StudyOrder(tmp_path, parts=("item gates",)))
    assert complete and len(list((tmp_path / "runs").glob("gates-*.json"))) == len(GATE_CURVES)
    assert results.items() == [
        "Figure 1", "Learned stopping", cost_aware.ITEMS[GATES], "Figure 1, at equal cost",
        cost_aware.ITEMS[GATES] + ", hypervolume", cost_aware.ITEMS[GATES] + ", time of a message",
    ]  # fmt: skip
    assert {cell.ours for cell in results.of_item("Figure 1")} == {0.125}
    found = {claim.id: claim for claim in results.claims}
    assert found["figure1-l1"] == Claim("figure1-l1", "Below.", True, "so")
    assert {name for name, claim in found.items() if name.startswith("gates") and claim.holds is not None}
    assert (tmp_path / "stopping.png").read_bytes() == b"old" and (tmp_path / "gates.png").exists()
    assert cost_aware.STUDY.steps(StudyOrder(tmp_path, parts=("item gates",))) == len(GATE_CURVES)


def test_claims_that_were_decided_get_their_rules(tmp_path: Path) -> None:
    kept = Results.open(tmp_path, "cost-aware", FULL, 0)
    kept.put(Cell("Figure 1", OURS, "0.01", 0.125))
    kept.claim(Claim("stopping-fixed", "Better.", True, "so"), Claim("figure1-l1", "Below.", False, "no"))
    found = {claim.id: claim for claim in judge_again(cost_aware.STUDY, tmp_path).claims}
    assert list(found)[:2] == ["figure1-l1", "figure1-group-lasso"] and all(claim.rule for claim in found.values())
    assert (found["figure1-l1"].holds, found["figure1-l1"].evidence) == (False, "no")
    assert (found["stopping-fixed"].holds, found["stopping-fixed"].evidence) == (True, "so")
    assert found["gates-all"].holds is None and found["gates-all"].evidence == MISSING


def test_fewer_truths_of_what_follows_figure_1() -> None:
    found = jobs(replace(TINY, truths=3, others=1))
    assert {job.truth for job in found if job.study == FIGURE1} == {0, 1, 2}
    assert {job.truth for job in found if job.study != FIGURE1} == {0}
    assert {job.study for job in found if job.truth == 0} == {FIGURE1, STRONG, SWEEPS, STOPPING, BOTH, GATES}
    assert REFITTED not in {job.curve for job in found} and OURS in {job.curve for job in found}
