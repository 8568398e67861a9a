"""``python -m studies``: what may be asked for, and what bad wishes are told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oracles.commands import assert_one_sentence, command
from studies.command import Paper, app, study_of
from studies.harness.results import FILE, FULL, Cell, Claim, Results
from studies.harness.study import StudyOrder

ROOT = Path(__file__).resolve().parents[2]
invoke, succeed = command(app)


def test_every_study_is_there_and_counts_its_runs() -> None:
    for paper in Paper:
        study = study_of(paper)
        assert study.name == paper.value and set(study.usual) <= set(study.parts)
        if not study.reads_data(study.usual):
            assert (
                study.steps(study.chosen(StudyOrder(Path("x"), FULL)))
                > study.steps(study.chosen(StudyOrder(Path("x"))))
                > 0
            )


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "studies", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "--minutes" in done.stdout and "samplerank" in done.stdout


@pytest.mark.parametrize("paper", list(Paper))
def test_unknown_parts_are_refused(paper: Paper, tmp_path: Path) -> None:
    result = invoke(paper.value, "--table", 9, "--out", tmp_path / "new")
    assert_one_sentence(result, f"--table 9 of {paper.value} is not reproduced")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("line", ["domke --table 1", "samplerank", "parser"])
def test_results_do_not_go_where_the_data_are(line: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert_one_sentence(invoke(*line.split(), "--data", data, "--out", data), "the input", "would destroy")
    assert list(data.iterdir()) == []


def test_pages_again(tmp_path: Path) -> None:
    Results(tmp_path, "erma", "quick", 3).note("A note.")
    before = (tmp_path / FILE).read_bytes()
    report = json.loads(succeed("erma", "--page", tmp_path, "--json").stdout)
    assert report["notes"] == ["A note."] and (tmp_path / FILE).read_bytes() == before
    assert "A note." in (tmp_path / "index.md").read_text() and "A note." in (tmp_path / "page.html").read_text()


def test_claims_again(tmp_path: Path) -> None:
    """Old verdicts give way to those of the rules as they are; what runs alone decide stays."""
    results = Results(tmp_path, "erma", FULL, 3)
    old = Claim("table3-logl-beats-truth", "Old.", False, "old")
    results.claim(old, Claim("fair-tenfold", "Kept.", True, "so", "a rule"))
    results.put(Cell("Table 3", "LOGL: LOGL", "Δ loss", -0.25))
    report = json.loads(succeed("erma", "--judge", tmp_path, "--json").stdout)
    found = {claim["id"]: claim for claim in report["claims"]}
    assert (
        found[old.id]["holds"]
        and found[old.id]["rule"]
        and found[old.id]["rule"] in (tmp_path / "index.md").read_text()
    )
    assert found["fair-tenfold"] == vars(results.claims[1])
    assert_one_sentence(invoke("erma", "--judge", tmp_path, "--page", tmp_path), "leave --page out")
    assert_one_sentence(invoke("erma", "--judge", tmp_path / "none"), "holds no results.json")
    assert_one_sentence(invoke("tables", "--judge", tmp_path), "decided by its runs alone")


def test_parts_without_a_number(tmp_path: Path) -> None:
    assert_one_sentence(invoke("cost-aware", "--item", "doors", "--out", tmp_path), "--item doors", "--item gates")
    assert_one_sentence(invoke("erma", "--item", "gates", "--out", tmp_path), "--item gates of erma is not reproduced")
    whole, gates = (
        study_of(Paper.COST_AWARE).steps(StudyOrder(tmp_path, FULL, parts=p)) for p in ((), ("item gates",))
    )
    assert 0 < gates < whole


def test_pages_of_another_paper_are_refused(tmp_path: Path) -> None:
    Results(tmp_path, "erma", "quick", 3).save()
    assert_one_sentence(invoke("domke", "--page", tmp_path), "results of 'erma', not 'domke'")
    assert_one_sentence(invoke("erma", "--page", tmp_path / "none"), "holds no results.json")
