"""Results files that survive interruption, and Figure 2 of Domke 2010 in miniature."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import loopwise as lw
from loopwise.cli.main import app
from loopwise.reproduce import domke_figure2
from loopwise.reproduce.domke import reproduce_figure2
from loopwise.reproduce.domke_claims import figure2_claims
from loopwise.reproduce.domke_figure2 import ESTIMATORS, INFERENCE, Protocol, item_name, problems
from loopwise.reproduce.results import FILE, Cell, Claim, Deadline, Results

TINY = Protocol(sizes=(2,), strengths=(0.5,), side=2, seeds=1, engine=lw.Reference())


def stored(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / FILE).read_text())
    return report


def test_schema_and_round_trip(tmp_path: Path) -> None:
    results = Results.open(tmp_path / "new", "paper", "quick", 1)
    results.put(Cell("Table 1", "a", "x", 0.5, 0.1, 5, published=0.4, more={"p": 0.01, "unknown": math.nan}))
    results.claim(Claim("one", "It works.", True, "it did"))
    report = stored(tmp_path / "new")
    assert set(report) == {"paper", "mode", "seed", "cells", "claims", "seconds"}
    expected = {"item": "Table 1", "row": "a", "column": "x", "published": 0.4, "ours": 0.5, "stderr": 0.1, "n": 5}
    assert report["cells"] == [{**expected, "p": 0.01, "unknown": None}]
    assert report["claims"] == [{"id": "one", "text": "It works.", "holds": True, "evidence": "it did"}]
    again = Results.open(tmp_path / "new", "paper", "quick", 1)
    again.save()
    assert {**stored(tmp_path / "new"), "seconds": 0} == {**report, "seconds": 0}


def test_cells_merge_by_item_and_place(tmp_path: Path) -> None:
    first = Results.open(tmp_path, "paper", "full", 0)
    first.put(Cell("Table 1", "a", "x", 1.0))
    first.put(Cell("Table 2", "a", "x", 2.0))
    second = Results.open(tmp_path, "paper", "full", 0)
    second.put(Cell("Table 2", "a", "x", 3.0))
    assert [cell["ours"] for cell in stored(tmp_path)["cells"]] == [1.0, 3.0]
    second.clear("Table 2")
    second.put(Cell("Table 2", "b", "x", 4.0))
    assert [cell["ours"] for cell in stored(tmp_path)["cells"]] == [1.0, 4.0]


@pytest.mark.parametrize("paper, mode, seed", [("other", "full", 0), ("paper", "quick", 0), ("paper", "full", 1)])
def test_a_full_run_is_not_overwritten(tmp_path: Path, paper: str, mode: str, seed: int) -> None:
    Results.open(tmp_path, "paper", "full", 0).put(Cell("Table 1", "a", "x", 1.0))
    before = (tmp_path / FILE).read_text()
    with pytest.raises(ValueError, match="another folder"):
        Results.open(tmp_path, paper, mode, seed)
    assert (tmp_path / FILE).read_text() == before


def test_a_quick_run_gives_way(tmp_path: Path) -> None:
    Results.open(tmp_path, "paper", "quick", 0).put(Cell("Table 1", "a", "x", 1.0))
    assert Results.open(tmp_path, "paper", "full", 0).cells == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"paper": 1}', "null"])
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match="no results file"):
        Results.open(tmp_path, "paper", "quick", 0)


def test_the_figure_in_miniature(tmp_path: Path) -> None:
    results, complete = reproduce_figure2(tmp_path, "quick", 0, protocol=TINY)
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

    def fake(problem: domke_figure2.Problem, protocol: Protocol, rows: list[str]) -> Any:
        for row in rows:
            if len(measured) == 9:  # in the middle of the second problem
                raise KeyboardInterrupt
            measured.append(f"{problem.item} {problem.column} {problem.seed} {row}")
            yield row, domke_figure2.Measurement(1.0 + problem.seed, error=1e-6)

    monkeypatch.setattr(domke_figure2, "_measured", fake)
    protocol = Protocol(sizes=(2, 3), strengths=(0.5,), side=2, seeds=2)
    with pytest.raises(KeyboardInterrupt):
        reproduce_figure2(tmp_path, "full", 0, protocol=protocol)
    assert len(stored(tmp_path)["cells"]) == 9
    first, measured[:] = list(measured), []
    monkeypatch.setattr(domke_figure2, "_measured", lambda *arguments: fake_all(*arguments))

    def fake_all(problem: domke_figure2.Problem, protocol: Protocol, rows: list[str]) -> Any:
        for row in rows:
            measured.append(f"{problem.item} {problem.column} {problem.seed} {row}")
            yield row, domke_figure2.Measurement(1.0 + problem.seed, error=1e-6)

    results, complete = reproduce_figure2(tmp_path, "full", 0, protocol=protocol)
    assert complete
    assert not set(first) & set(measured)  # nothing twice
    assert len(first) + len(measured) == 6 * len(list(problems(protocol, 0)))  # and nothing left out
    for cell in results.cells:
        assert cell.n == 2 and cell.ours == pytest.approx(1.5)


def test_out_of_time(tmp_path: Path) -> None:
    deadline = Deadline(1e-9)
    results = Results.open(tmp_path, "domke", "full", 0)
    assert domke_figure2.run_figure2(results, TINY, deadline, lambda _: None)[0] == 0
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
        "back-BP": lambda side, a: 1.5 * side**2,
        "unroll": lambda side, a: 3 * side**2,
        "direct": lambda side, a: side**4 / 100,
        "MINRES": lambda side, a: side**2 * (1 + a**3),
    }
    bad = {
        "inference": lambda side, a: side**2,
        "perturbation": lambda side, a: 9 * side**2,
        "back-BP": lambda side, a: 0.5 * side**2,
        "unroll": lambda side, a: 3 * side**3,
        "direct": lambda side, a: 10 * side**2,
        "MINRES": lambda side, a: side**2,
    }
    curves(results, good if as_published else bad)
    claims = figure2_claims(results)
    assert len(claims) == 5
    assert [claim.holds for claim in claims] == [as_published] * 5
    assert all(claim.evidence for claim in claims)


def test_nothing_measured_is_nothing_claimed(tmp_path: Path) -> None:
    claims = figure2_claims(Results.open(tmp_path, "domke", "quick", 0))
    assert {claim.holds for claim in claims} == {None}


@pytest.mark.parametrize(
    "arguments, words",
    [(["--quick", "--full"], "exclude"), (["--figure", "3"], "figure 2"), (["--data", "x"], "--data")],
)
def test_command_line_errors(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", "domke", "--out", str(tmp_path), *arguments])
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwise.reproduce.domke.SHORTENED", replace(TINY, strengths=()))
    told = CliRunner().invoke(app, ["reproduce", "domke", "--figure", "2", "--out", str(tmp_path)])
    assert told.exit_code == 0 and "direct solver" in told.stdout
    again = CliRunner().invoke(app, ["reproduce", "domke", "--quick", "--json", "--out", str(tmp_path)])
    assert json.loads(again.stdout)["paper"] == "domke"
