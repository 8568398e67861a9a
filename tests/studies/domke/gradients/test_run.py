"""Figure 2 of Domke 2010 in miniature."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import loopwise as lw
from studies.command import app
from studies.domke.gradients import run as domke_figure2
from studies.domke.gradients.claims import figure2_claims
from studies.domke.gradients.run import (
    ESTIMATORS,
    INFERENCE,
    PROTOCOLS,
    GradientProtocol,
    GridProblem,
    item_name,
    problems,
)
from studies.domke.run import STUDY
from studies.harness.results import FILE, FULL, QUICK, Cell, Deadline, Results
from studies.harness.study import StudyOrder, reproduce

TINY = GradientProtocol(sizes=(2,), strengths=(0.5,), side=2, seeds=1, engine=lw.inference.Reference())


def stored(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / FILE).read_text())
    return report


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each estimator is called twice, not until a timing would be worth something."""
    monkeypatch.setattr(domke_figure2, "SHORT", 0.0)


@pytest.mark.usefixtures("once")
def test_the_figure_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, TINY)
    results, complete = reproduce(STUDY, StudyOrder(tmp_path))
    assert complete
    panels = {item_name(entropy, against) for entropy in ("Bethe", "TRW") for against in ("size", "strength")}
    assert set(results.items()) == panels
    for cell in results.cells:
        assert cell.ours is not None and cell.ours > 0 and cell.n == 1
        if cell.row != INFERENCE:
            assert cell.more["error"] < 1e-3  # all estimate the same gradient
    assert {cell.row for cell in results.cells} == {INFERENCE, *ESTIMATORS}
    assert (tmp_path / "figure2.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "page.html").read_text()
    assert "data:image/png;base64," in page and "http" not in page  # self-contained
    for claim in results.claims:
        assert claim.text in page and claim.text in (tmp_path / "index.md").read_text()


def test_an_interrupted_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def fake(problem: GridProblem, protocol: GradientProtocol, rows: list[str]) -> Any:
        for row in rows:
            if len(measured) == 9:  # in the middle of the second problem
                raise KeyboardInterrupt
            measured.append(f"{problem.item} {problem.column} {problem.seed} {row}")
            yield row, domke_figure2.Measurement(1.0 + problem.seed, error=1e-6)

    monkeypatch.setattr(domke_figure2, "_measured", fake)
    protocol = GradientProtocol(sizes=(2, 3), strengths=(0.5,), side=2, seeds=2)
    monkeypatch.setitem(PROTOCOLS, FULL, protocol)
    order = StudyOrder(tmp_path, FULL)
    with pytest.raises(KeyboardInterrupt):
        reproduce(STUDY, order)
    assert len(stored(tmp_path)["cells"]) == 9
    first, measured[:] = list(measured), []
    monkeypatch.setattr(domke_figure2, "_measured", lambda *arguments: fake_all(*arguments))

    def fake_all(problem: GridProblem, protocol: GradientProtocol, rows: list[str]) -> Any:
        for row in rows:
            measured.append(f"{problem.item} {problem.column} {problem.seed} {row}")
            yield row, domke_figure2.Measurement(1.0 + problem.seed, error=1e-6)

    results, complete = reproduce(STUDY, order)
    assert complete
    whole, part = first[:7], first[7:]
    assert not set(whole) & set(measured)  # nothing twice
    assert set(part) <= set(measured)  # times of one problem are taken together
    assert len(whole) + len(measured) == 7 * len(list(problems(protocol, 0)))  # and nothing left out
    for cell in results.cells:
        assert cell.n == 2 and cell.ours == pytest.approx(1.5)


def test_out_of_time(tmp_path: Path) -> None:
    deadline = Deadline(1e-9)
    results = Results.open(tmp_path, "domke", "full", 0)
    assert domke_figure2.run_figure2(results, TINY, deadline, lambda what, done: None)[0] == 0
    assert results.cells == [] and not Deadline(None).passed
    with pytest.raises(ValueError, match="positive"):
        Deadline(0)


def curves(results: Results, seconds: dict[str, Any]) -> None:
    for entropy in ("Bethe", "TRW"):
        for row, function in seconds.items():
            for side in (8, 16, 32):
                results.put(Cell(item_name(entropy, "size"), row, f"{side}x{side}", function(side, 1.0)))
            for strength in (0.5, 3.0):
                results.put(Cell(item_name(entropy, "strength"), row, f"{strength:g}", function(32, strength)))


@pytest.mark.parametrize("as_published", [True, False])
def test_claims_follow_the_curves(tmp_path: Path, as_published: bool) -> None:
    """Curves made to have the published shape, and curves made to have none of it."""
    results = Results.open(tmp_path, "domke", "quick", 0)
    good = {
        "inference": lambda side, a: side**2,
        "perturbation": lambda side, a: 2.1 * side**2,
        "perturbation, warm start": lambda side, a: 1.8 * side**2,
        "back-BP": lambda side, a: 1.5 * side**2,
        "unroll": lambda side, a: 3 * side**2,
        "direct": lambda side, a: side**4 / 100,
        "MINRES": lambda side, a: side**2 * (1 + a**3),
    }
    bad = {
        "inference": lambda side, a: side**2,
        "perturbation": lambda side, a: 9 * side**2,
        "perturbation, warm start": lambda side, a: 10 * side**2,
        "back-BP": lambda side, a: 0.5 * side**2,
        "unroll": lambda side, a: 3 * side**3,
        "direct": lambda side, a: 10 * side**2,
        "MINRES": lambda side, a: side**2,
    }
    curves(results, good if as_published else bad)
    claims = figure2_claims(results)
    assert len(claims) == 8 and all(claim.rule for claim in claims)
    assert [claim.holds for claim in claims] == [as_published] * 8
    assert all(claim.evidence for claim in claims)


def test_nothing_measured_is_nothing_claimed(tmp_path: Path) -> None:
    claims = figure2_claims(Results.open(tmp_path, "domke", "quick", 0))
    assert {claim.holds for claim in claims} == {None}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--quick", "--full"], "exclude"),
        (["--figure", "3"], "figure 2"),
        (["--data", "x"], "--data"),
        (["--jobs", "2"], "--jobs means nothing to domke"),
    ],
)
def test_command_line_errors(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["domke", "--out", str(tmp_path), *arguments])
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.usefixtures("once")
def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, replace(TINY, strengths=()))
    told = CliRunner().invoke(app, ["domke", "--figure", "2", "--out", str(tmp_path)])
    assert told.exit_code == 0 and "direct solver" in told.stdout
    again = CliRunner().invoke(app, ["domke", "--quick", "--json", "--out", str(tmp_path)])
    assert json.loads(again.stdout)["paper"] == "domke"
