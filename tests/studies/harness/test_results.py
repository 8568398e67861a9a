"""Results files that survive interruption, and are never lost to another run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from studies.harness.results import FILE, Cell, Claim, Results


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
    second.put_items(["Table 2"], [Cell("Table 2", "b", "x", 4.0)])
    assert [cell["ours"] for cell in stored(tmp_path)["cells"]] == [1.0, 4.0]


def test_claims_take_the_place_of_older_ones(tmp_path: Path) -> None:
    results = Results.open(tmp_path, "paper", "full", 0)
    results.claim(Claim("both", "Both.", True, ""), Claim("other", "Other.", True, ""))
    results.claim(Claim("one", "One.", None, ""), Claim("two", "Two.", False, ""), instead_of=("both", "unknown"))
    assert [claim["id"] for claim in stored(tmp_path)["claims"]] == ["other", "one", "two"]


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


def test_notes_are_kept_with_the_numbers(tmp_path: Path) -> None:
    first = Results.open(tmp_path, "paper", "quick", 0)
    first.note("It took 3 hours.")
    assert Results.of_folder(tmp_path, "paper").notes == ("It took 3 hours.",)
    Results.open(tmp_path, "paper", "quick", 0).note()
    assert "notes" not in stored(tmp_path)
    with pytest.raises(ValueError, match=r"holds no results\.json"):
        Results.of_folder(tmp_path / "none", "paper")
