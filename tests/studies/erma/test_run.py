"""The ERMA study: its pieces against values worked out by hand, and the whole of it in miniature."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import loopwise as lw
from studies.command import app
from studies.erma import figure1 as erma_figure1
from studies.erma import run as erma
from studies.erma.claims import claims
from studies.erma.models import SampleSizes, Size, draw_model, load_model, mismatched, published_sizes
from studies.erma.practice import PRACTICES, Practice, PracticeOutcome, PracticeTrial
from studies.erma.protocol import (
    BEST,
    IDEAL,
    LOGL,
    PROTOCOLS,
    SGD,
    TABLE3,
    TESTS,
    TRAINS,
    TRUE,
    TRUTH,
    Condition,
    ErmaJob,
    ErmaProtocol,
)
from studies.erma.tables import PRINTED, SGD_ITEM, SWEEPS_ITEM, TABLES, ErmaRuns, row_name
from studies.erma.training import ErmaRun, finished, judged, run_job, truth_inference
from studies.harness.results import FILE, FULL, QUICK, Cell, Results
from studies.harness.statistics import TIE, example_flip_p, record, sign_flip_p
from studies.harness.study import StudyOrder, reproduce

SMALL = Size(9, 14)
TINY = ErmaProtocol(
    sizes=(SMALL, Size(12, 18)),
    sampling=SampleSizes(32, 20, 30),
    epochs=4,
    warm_up=1,
    restarts=2,
    mismatches=(0.2,),
    sweeps=(100, 3),
    landscape=SMALL,
    points=3,
)


# --- Models ----------------------------------------------------------------------------------------------------------


def test_the_published_sizes() -> None:
    sizes = published_sizes()
    assert len(sizes) == 12 and sizes[0].name == "50-100"
    assert {size.edges for size in sizes if size.variables == 200} == {400, 800, 1060}


def test_a_third_each_and_the_same_in_training_and_test() -> None:
    model = draw_model(Size(50, 100), 0, SampleSizes(4, 3, 5), threads=1)
    counts = [int((model.train.roles[0] == role).sum()) for role in (lw.Role.INPUT, lw.Role.HIDDEN, lw.Role.OUTPUT)]
    assert counts == [16, 16, 18]
    assert (model.train.roles == model.train.roles[0]).all() and (model.test.roles == model.train.roles[0]).all()
    assert len(model.train) == 4 and len(model.test) == 3 and model.tables.shape == (100, 2, 2)


def test_data_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = SampleSizes(5, 4, 10)
    first = load_model(tmp_path, SMALL, 0, sampling, threads=1)
    monkeypatch.setattr("studies.erma.models.sample_examples", lambda *_, **__: pytest.fail("sampled again"))
    again = load_model(tmp_path, SMALL, 0, sampling)
    assert np.array_equal(first.train.values, again.train.values)
    assert np.array_equal(first.test.values, again.test.values)
    assert torch.equal(first.tables, again.tables)
    with pytest.raises(BaseException, match="sampled again"):  # of another draw
        load_model(tmp_path, SMALL, 1, sampling)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
def test_as_many_edges_are_added_as_removed(share: float) -> None:
    graph = lw.random_mrf(12, 20, seed=0)
    before = {tuple(pair) for pair in graph.group("pair").scopes.tolist()}
    after = {tuple(pair) for pair in mismatched(graph, share, 3).group("pair").scopes.tolist()}
    assert len(after) == 20
    assert len(before - after) == len(after - before) == round(share * 20)


def test_more_mismatch_keeps_the_mistakes_of_less() -> None:
    graph = lw.random_mrf(12, 20, seed=0)
    little, much = (
        {tuple(pair) for pair in mismatched(graph, share, 3).group("pair").scopes.tolist()} for share in (0.2, 0.4)
    )
    before = {tuple(pair) for pair in graph.group("pair").scopes.tolist()}
    assert before - little < before - much and little - before < much - before


@pytest.mark.parametrize("share", [-0.1, 1.5, 0.9])
def test_impossible_mismatch(share: float) -> None:
    with pytest.raises(ValueError, match="cannot be exchanged"):
        mismatched(lw.random_mrf(6, 12, seed=0), share, 0)  # 15 pairs, 3 of them free


# --- Statistics ------------------------------------------------------------------------------------------------------


def test_sign_flips_by_hand() -> None:
    # 3 + 1 = 4 is as extreme as can be: ±4 of the sums 4, 2, -2, -4; 3 - 1 = 2 is in the middle of them.
    assert sign_flip_p([3.0, 1.0]) == 0.5
    assert sign_flip_p([3.0, -1.0]) == 1.0
    assert sign_flip_p([1.0] * 12) == 2 / 4096
    assert sign_flip_p([0.0, 0.0]) == 1.0


def test_sign_flips_by_enumeration() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 9)
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in itertools.product((1, -1), repeat=9)
    ]
    expected = np.mean([total >= abs(values.sum()) - 1e-12 for total in sums])
    assert sign_flip_p(values) == pytest.approx(expected)


def test_sign_flips_need_differences() -> None:
    for bad in ([], np.ones(40)):
        with pytest.raises(ValueError, match="differences"):
            sign_flip_p(bad)


def test_flips_over_examples_agree_with_the_exact_test() -> None:
    values = np.random.default_rng(1).normal(0.4, 1, 12)
    assert example_flip_p([values], flips=19999) == pytest.approx(sign_flip_p(values), abs=0.015)
    # Two models of equal weight, though one has more examples: the same as weighing by hand.
    uneven = example_flip_p([values[:4], values[4:]], flips=19999)
    weighted = sign_flip_p(np.concatenate([values[:4] / 4, values[4:] / 8]))
    assert uneven == pytest.approx(weighted, abs=0.015)
    assert example_flip_p([np.ones(200)], flips=99) == 0.01  # the least there can be


def test_wins_ties_losses() -> None:
    assert str(record([1.0, 1.0, 1.0, 0.0], [2.0, 1.0 + TIE / 2, 0.5, 0.1])) == "2-1-1"


# --- Settings and jobs -----------------------------------------------------------------------------------------------


def test_rows_of_the_published_table() -> None:
    rows = [(test, train) for test, trains in TABLE3.items() for train in trains]
    assert rows == [(test, train) for test, columns in PRINTED["table3"].items() for train in columns]
    assert {train for _, train in rows} <= set(TRAINS)
    restarts = {train: TRAINS[train].restarts(5) for _, train in rows}
    assert {train for train, count in restarts.items() if count == 1} == {name for name in restarts if "-in" in name}
    for test, columns in PRINTED["table6"].items():
        for target, delta in columns.items():
            printed = PRINTED["table3"][test].get(BEST[target].name)
            assert printed is None or printed["loss"] == delta


def test_each_run_is_listed_once() -> None:
    jobs = erma.jobs_of(PROTOCOLS[FULL])
    assert len(jobs) == len(set(jobs))
    # The truth; nine settings and SGD; four trainings at four levels, and at three more limits of sweeps; Figure 1.
    assert len(jobs) == 12 * (1 + 10 + 16 + 12) + 1
    assert len({job.path(Path()) for job in jobs}) == len(jobs)
    assert set(erma.jobs_of(PROTOCOLS[FULL], [6], figure=False)) < set(jobs)


# --- Runs ------------------------------------------------------------------------------------------------------------


def test_losses_of_a_run_by_hand(tmp_path: Path) -> None:
    """Every test loss of the true parameters, from their beliefs."""
    job = ErmaJob(SMALL, TRUTH, TRUE)
    run_job(job, TINY, tmp_path, seed=0)
    run = finished(job, tmp_path)
    assert run is not None
    model = load_model(tmp_path, SMALL, 0, TINY.sampling)
    outputs = np.flatnonzero(model.test.roles[0] == lw.Role.OUTPUT)

    def beliefs(examples: lw.Examples) -> np.ndarray:
        return (
            truth_inference()(model.graph, {"pair": model.tables}, examples.evidence).variables[:, outputs, 1].numpy()
        )

    kappa = np.median(beliefs(model.train))
    found, gold = beliefs(model.test), model.test.values[:, outputs]
    guess, marked = found > 0.5, found > kappa
    f = [
        2 * (a & b).sum() / (a.sum() + b.sum()) if a.any() or b.any() else 1.0
        for a, b in zip(marked, gold > 0, strict=True)
    ]
    np.testing.assert_allclose(run.losses["MSE"], ((found - gold) ** 2).mean(1))
    np.testing.assert_allclose(run.losses["L1"], (guess != gold).mean(1))
    np.testing.assert_allclose(run.losses["F"], 1 - np.array(f))
    assert run.sweeps >= 1 and run.converged == 1.0 and run.tables.shape == (14, 2, 2)


@pytest.mark.parametrize("train", ["LOGL", "F-hyb-in", "MSE-in by SGD"])
def test_training_lowers_what_it_is_for(tmp_path: Path, train: str) -> None:
    job = ErmaJob(SMALL, train, Condition(mismatch=0.2, iterations=5))
    run_job(job, TINY, tmp_path, seed=0)
    run = finished(job, tmp_path)
    assert run is not None and math.isfinite(run.objective)
    model = load_model(tmp_path, SMALL, 0, TINY.sampling)
    graph = model.structure(0.2)
    blank = lw.System(lw.TablePotentials.random(graph, seed=0, scale=0.1), lw.BP(iterations=5))
    start = judged(
        blank,
        train,
        lw.Examples.of(graph, model.train.values, model.train.roles),
        lw.Examples.of(graph, model.test.values, model.test.roles),
        0.0,
        "",
    )
    target = TRAINS[train].target.name
    assert run.loss(target) < start.loss(target)
    run_job(job, TINY, tmp_path, seed=0)
    again = finished(job, tmp_path)
    assert again is not None and np.array_equal(again.tables, run.tables)  # the same seed, the same weights


def fake_run(loss: dict[str, float], sweeps: float = 10.0, objective: float = 0.1) -> ErmaRun:
    rows = {test: np.full(6, loss.get(test, 0.0)) for test in TESTS}
    return ErmaRun(np.zeros((14, 2, 2)), rows, objective, sweeps, 1.0, 1.0)


def test_differences_are_to_the_truth_and_only_where_all_is_there(tmp_path: Path) -> None:
    first, second = TINY.sizes
    for size in TINY.sizes:
        fake_run({"MSE": 0.10}).save(ErmaJob(size, TRUTH, TRUE).path(tmp_path))
        fake_run({"MSE": 0.15}).save(ErmaJob(size, LOGL.name).path(tmp_path))
    fake_run({"MSE": 0.12}).save(ErmaJob(first, "MSE-in").path(tmp_path))
    fake_run({"MSE": 0.11}).save(ErmaJob(first, "MSE").path(tmp_path))
    fake_run({"MSE": 0.17}).save(ErmaJob(second, "MSE").path(tmp_path))
    cells = {cell.key: cell for cell in TABLES[3](ErmaRuns(tmp_path, TINY, 0))}
    one = cells["Table 3", "MSE: MSE-in", "Δ loss"]
    assert one.ours == pytest.approx(0.02) and one.n == 1 and one.stderr is None and one.published == 0.00057
    both = cells["Table 3", "MSE: MSE", "Δ loss"]
    assert both.ours == pytest.approx(0.04) and both.n == 2 and both.stderr == pytest.approx(0.03)
    assert both.more["models"] == pytest.approx({first.name: 0.01, second.name: 0.07})
    won = cells["Table 3, models won", "MSE: MSE", "Δ loss"]
    assert (won.ours, won.more["ties"], won.more["losses"], won.published) == (1.0, 0, 1, 5.0)
    # Differences to LOGL are -.04 and .02: of the four flips all reach .02 in size.
    assert cells["Table 3, p", "MSE: MSE", "Δ loss"].ours == 1.0
    assert ("Table 3", "F: F-in", "Δ loss") not in cells


# --- Claims ----------------------------------------------------------------------------------------------------------


def put_record(results: Results, item: str, test: str, column: str, p: float = 0.01) -> None:
    """Ten models won, two lost, by the best training for a loss."""
    row = row_name(test, BEST[test].name)
    results.put(Cell(f"{item}, models won", row, column, 10.0, more={"ties": 0, "losses": 2}))
    results.put(Cell(f"{item}, p", row, column, p, more={"p_examples": 0.001}))


def published_results(folder: Path) -> Results:
    """The paper's own numbers, as if they were ours."""
    results = Results.open(folder, "erma", "quick", 0)
    for test, trains in PRINTED["table3"].items():
        for train, printed in trains.items():
            results.put(Cell("Table 3", row_name(test, train), "Δ loss", printed["loss"]))
        put_record(results, "Table 3", test, "Δ loss")
        for target, delta in PRINTED["table6"][test].items():
            results.put(Cell("Table 6", test, target, delta))
        for number in (4, 5):
            for goal, columns in PRINTED[f"table{number}"][test].items():
                name = BEST[test].name if goal == "risk" else LOGL.name
                for column, printed in columns.items():
                    results.put(Cell(f"Table {number}", row_name(test, name), column, printed["loss"]))
                    put_record(results, f"Table {number}", test, column)
    for train, sweeps, loss in ((LOGL.name, 60.0, 0.0), ("MSE-in", 20.0, 0.05), (SGD.name, 0.0, 0.06)):
        results.put(Cell(SWEEPS_ITEM, train, "100", sweeps, more={"converged": 1.0}))
        results.put(Cell(SGD_ITEM, train, "training loss", loss, more={"models": {"50-100": loss}}))
    return results


def test_claims_on_the_published_numbers(tmp_path: Path) -> None:
    """All hold but those that the paper's own tables contradict."""
    found = {claim.id: claim for claim in claims(published_results(tmp_path))}
    assert {name for name, claim in found.items() if not claim.holds} == {"table6-diagonal", "table4-erm-better"}
    assert "L1: best when trained for MSE" in found["table6-diagonal"].evidence
    assert "38" in found["table5-tenfold"].evidence  # .02461 / .00064
    assert all(claim.evidence for claim in found.values())


def test_claims_fail_when_the_numbers_do(tmp_path: Path) -> None:
    results = published_results(tmp_path)
    for cell in results.cells:
        results.put(replace(cell, ours=None if cell.ours is None else -cell.ours))
    holds = {claim.id: claim.holds for claim in claims(results)}
    wrong = ("table3-erm-better", "table3-staged", "table3-hybrid", "table3-both", "table3-logl-beats-truth",
             "table5-tenfold", "table5-logl-slower", "smd-better-than-sgd", "table6-diagonal")  # fmt: skip
    assert all(holds[name] is False for name in wrong)


def test_claims_compare_the_same_models(tmp_path: Path) -> None:
    """One training is ahead by a hard model: that must not count against it."""
    results = Results.open(tmp_path, "erma", "quick", 0)
    for test in ("MSE", "F", "L1"):
        results.put(Cell("Table 3", row_name(test, LOGL.name), "Δ loss", 0.2, more={"models": {"a": 0.2}}))
        ours = {"a": 0.1, "b": 0.9}
        results.put(Cell("Table 3", row_name(test, BEST[test].name), "Δ loss", 0.5, more={"models": ours}))
        put_record(results, "Table 3", test, "Δ loss")
    found = {claim.id: claim for claim in claims(results)}["table3-erm-better"]
    assert found.holds and "0.10000 against 0.20000" in found.evidence and found.rule
    put_record(results, "Table 3", "F", "Δ loss", p=0.2)  # a lower mean alone is not enough
    assert {claim.id: claim for claim in claims(results)}["table3-erm-better"].holds is False


def test_nothing_run_is_nothing_claimed(tmp_path: Path) -> None:
    assert {claim.holds for claim in claims(Results.open(tmp_path, "erma", "quick", 0))} == {None}


# --- The whole -------------------------------------------------------------------------------------------------------


def test_landscape_at_its_ends(tmp_path: Path) -> None:
    for job in erma_figure1.jobs(TINY):
        assert erma_figure1.curves(tmp_path, TINY, 0) is None  # while runs are missing
        run_job(job, TINY, tmp_path, 0)
    found = erma_figure1.curves(tmp_path, replace(TINY, points=5), 0)
    assert found is not None
    np.testing.assert_allclose(found["alpha"], [-0.5, 0.0, 0.5, 1.0, 1.5])
    at_truth = {key.split("|", 1)[1]: set() for key in found if "|" in key}
    for key, values in found.items():
        if "|" in key:
            at_truth[key.split("|", 1)[1]].add(round(float(values[1]), 12))
    assert all(len(values) == 1 for values in at_truth.values())  # all lines pass through the truth
    np.testing.assert_allclose(found["MSE at the end|MSE|hard"], found["MSE at the end|MSE|soft"])
    model = load_model(tmp_path, SMALL, 0, TINY.sampling)
    run = finished(ErmaJob(SMALL, "MSE"), tmp_path)
    assert run is not None
    system = lw.System(lw.TablePotentials(model.graph, {"pair": torch.from_numpy(run.tables)}), lw.BP(tolerance=1e-5))
    assert found["MSE at the end|MSE|hard"][3] == pytest.approx(lw.evaluate(system, model.train, lw.loss.MSE()))


def test_command_line_stops_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    done: list[ErmaJob] = []
    real = run_job

    def interrupted(job: ErmaJob, **arguments: Any) -> None:
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(job)
        real(job, **arguments)

    monkeypatch.setattr(erma, "run_job", interrupted)
    call = ["erma", "--jobs", "1", "--out", str(tmp_path)]
    CliRunner().invoke(app, call)
    first, done[:] = list(done), []
    monkeypatch.setattr(erma, "run_job", lambda job, **rest: done.append(job) or real(job, **rest))
    told = CliRunner().invoke(app, call)
    assert (told.exit_code == 0 and "Training for the loss beats likelihood" in told.stdout.replace("\n", " ")) or told
    assert not set(first) & set(done) and {*first, *done} == set(erma.jobs_of(TINY))  # nothing twice, nothing left out
    report = json.loads((tmp_path / FILE).read_text())
    items = {cell["item"] for cell in report["cells"]}
    assert {"Table 3", "Table 4", "Table 5", "Table 6", "Figure 1", SWEEPS_ITEM, SGD_ITEM} <= items
    assert all(cell["n"] == 2 for cell in report["cells"] if cell["item"].startswith("Table"))
    assert len(report["claims"]) == 12
    page, markdown = (tmp_path / "page.html").read_text(), (tmp_path / "index.md").read_text()
    assert "data:image/png;base64," in page and "http" not in page and "quick version" in page
    for claim in report["claims"]:
        assert claim["text"] in markdown
    for picture in (erma_figure1.PICTURE, "tables.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG") and picture in markdown
    done.clear()
    again = CliRunner().invoke(app, [*call, "--table", "6", "--json"])
    assert json.loads(again.stdout)["paper"] == "erma" and not done
    assert {cell["item"] for cell in json.loads(again.stdout)["cells"]} == items  # the other tables are still there


def test_runs_of_another_protocol_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = StudyOrder(tmp_path, minutes=1e-9, parts=("table 6",), workers=1)
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    reproduce(erma.STUDY, few)
    marker = tmp_path / "runs" / "run-old.npz"
    marker.touch()
    reproduce(erma.STUDY, few)
    assert marker.exists()  # the same protocol: kept
    monkeypatch.setitem(PROTOCOLS, QUICK, replace(TINY, epochs=5))
    reproduce(erma.STUDY, few)
    assert not marker.exists()
    monkeypatch.setitem(PROTOCOLS, FULL, TINY)
    with pytest.raises(ValueError, match="another"):
        reproduce(erma.STUDY, replace(few, mode=FULL))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--quick", "--full"], "exclude"),
        (["--table", "2"], "--table 2 of erma is not reproduced; there is --table 3, --table 4"),
        (["--data", "x"], "--data means nothing to erma"),
        (["--practice", "--figure", "1"], "neither tables nor figures"),
        (["--figure", "2"], "--figure 1"),
        (["--jobs", "0"], "--jobs"),
        (["--minutes", "0"], "positive"),
    ],
)
def test_command_line_errors(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["erma", "--out", str(tmp_path), *arguments])
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def test_ideal_is_the_base_of_table_5() -> None:
    assert Condition(iterations=PROTOCOLS[FULL].sweeps[0]) == IDEAL


# --- What to use -----------------------------------------------------------------------------------------------------


def test_practice_is_resumed_and_compared_to_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    practice = Practice(size=Size(8, 10), sampling=SampleSizes(32, 40, 20), draws=1, epochs=4, warm_up=1, iterations=2)
    monkeypatch.setitem(PRACTICES, QUICK, practice)
    runs, order = tmp_path / "runs", StudyOrder(tmp_path, parts=("practice",), workers=1)
    trial = PracticeTrial(0, LOGL.name, "Adam", "mean field, 100 sweeps")
    results, complete = reproduce(erma.STUDY, replace(order, minutes=1e-9))
    assert not complete and not any(runs.glob("practice-*")) and not results.cells
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("studies.erma.practice.TRAININGS", (LOGL.name, "F-hyb-in"))
        results, complete = reproduce(erma.STUDY, order)
        assert complete
        outcome = PracticeOutcome.load(trial.path(runs))
        truth = PracticeOutcome.load(PracticeTrial(0, TRUTH, "", "BP, 100 sweeps").path(runs))
        cell = results.find("What to use: inference", "mean field, 100 sweeps: LOGL", "F")
        assert cell is not None and cell.ours == pytest.approx(outcome.losses["F"] - truth.losses["F"])
        assert results.find("What to use: optimisers", "L-BFGS: F-hyb-in", "calibration error") is not None
        stamp = trial.path(runs).stat().st_mtime_ns
        reproduce(erma.STUDY, order)
        assert trial.path(runs).stat().st_mtime_ns == stamp  # nothing is run twice
    assert (tmp_path / "practice.png").stat().st_size > 10_000
    assert "What to use: inference" in (tmp_path / "index.md").read_text(encoding="utf-8")
