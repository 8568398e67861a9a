"""The pages that are kept are those that the kept numbers give, to the byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from loopwise.apps.chain import ChainSampleRank
from studies.command import Paper, study_of
from studies.harness.results import FILE, Results
from studies.harness.study import judge_again, rebuild_pages
from studies.samplerank.names.methods import ALL10, RICHER_SET, WalkSetting
from studies.samplerank.names.tables import ONE_FOR_ALL

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
OURS = (
    Paper.DECODER,
    Paper.TABLES,
    Paper.ENTITIES,
)  # no paper's: they may be kept while they are under way, and then say so
PUBLISHED = [paper for paper in Paper if paper not in OURS]
KEPT = PUBLISHED + [paper for paper in OURS if (RESULTS / paper.value / FILE).exists()]
UNDER_WAY = "Not finished"


@pytest.mark.parametrize("paper", KEPT)
def test_pages_are_made_of_the_results(paper: Paper, tmp_path: Path) -> None:
    kept, folder = RESULTS / paper.value, tmp_path / paper.value
    folder.mkdir()
    for path in (kept / FILE, *kept.glob("*.png")):
        shutil.copy(path, folder)
    rebuild_pages(study_of(paper), folder)
    for name in ("index.md", "page.html"):
        assert (folder / name).read_bytes() == (kept / name).read_bytes(), f"{name}: python -m studies --page makes it"


@pytest.mark.parametrize("paper", [paper for paper in KEPT if study_of(paper).judge is not None])
def test_claims_are_what_the_rules_make_of_the_numbers(paper: Paper, tmp_path: Path) -> None:
    """Nothing was decided by a rule that is no longer there."""
    kept, folder = RESULTS / paper.value, tmp_path / paper.value
    shutil.copytree(kept, folder)
    again = judge_again(study_of(paper), folder)
    assert again.claims == Results.of_folder(kept, paper.value).claims, "python -m studies --judge decides them"
    assert again.cells == Results.of_folder(kept, paper.value).cells


def test_the_readme_counts_the_claims_that_hold() -> None:
    claims = [claim for paper in PUBLISHED for claim in Results.of_folder(RESULTS / paper.value, paper.value).claims]
    tested = [claim for claim in claims if claim.holds is not None]
    assert (
        f"{sum(bool(claim.holds) for claim in tested)} of {len(tested)} hold"
        in (RESULTS.parents[1] / "README.md").read_text()
    )


def test_what_choosing_quotes_of_the_tables_stands_there() -> None:
    results = Results.of_folder(RESULTS / "erma", "erma")
    said = " ".join((RESULTS.parent / "choosing.md").read_text().split())
    levels = [results.find("Table 4, p", "MSE: MSE-in", f"{share}%") for share in (10, 20, 30, 40)]
    quoted = [f"{cell.ours:.3f}"[1:] for cell in levels if cell is not None and cell.ours is not None]
    assert f"three of four levels (p {', '.join(quoted[:-1])} and {quoted[-1]})" in said
    assert sum(float(p) < 0.05 for p in quoted) == 3


def test_the_taggers_walk_is_what_development_data_chose() -> None:
    """Its default start and margin are those of the best mean over corpora."""
    results = Results.of_folder(RESULTS / "samplerank", "samplerank")
    tried = {
        cell.row: cell.ours for cell in results.of_item(ONE_FOR_ALL) if cell.column == f"{RICHER_SET.key}, {ALL10}"
    }
    assert len(tried) == 12 and all(tried.values())
    learner = ChainSampleRank()
    chosen = WalkSetting(learner.start.value, learner.margin(1.0))
    assert str(chosen) == max(tried, key=lambda row: tried[row] or 0.0) + ", sweeps 1"
    assert learner.sweeps == 1 and learner.epochs == 10


@pytest.mark.parametrize("paper", KEPT)
def test_studies_of_papers_are_finished(paper: Paper) -> None:
    """Others say on their page what is missing, unless every claim is decided."""
    results = Results.of_folder(RESULTS / paper.value, paper.value)
    under_way = any(note.startswith(UNDER_WAY) for note in results.notes)
    assert results.mode == "full" and not (under_way and paper in PUBLISHED)
    if paper in OURS and any(claim.holds is None for claim in results.claims):
        assert under_way


@pytest.mark.parametrize("paper", KEPT)
def test_results_are_saved_as_they_were(paper: Paper, tmp_path: Path) -> None:
    """Reading and saving changes no digit."""
    shutil.copy(RESULTS / paper.value / FILE, tmp_path)
    results = Results.of_folder(tmp_path, paper.value)
    seconds = results.seconds
    results.save()
    text = (tmp_path / FILE).read_text(encoding="utf-8")
    before = (RESULTS / paper.value / FILE).read_text(encoding="utf-8")
    assert text.rpartition('"seconds"')[0] == before.rpartition('"seconds"')[0]
    assert results.seconds == pytest.approx(seconds, abs=60)
