"""Runs in one file: the same bytes for the same runs, laid back where they are missing, never mixed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from studies.harness.packed import LARGEST, PACK, pack_runs, unpack_runs
from studies.harness.page import Page
from studies.harness.results import FULL, Deadline, Results
from studies.harness.runs import check_runs, read_run, save_arrays, write_run
from studies.harness.study import Study, StudyOrder, reproduce


def made(folder: Path, seed: int = 1) -> Path:
    """Two folders of runs, one within the other."""
    for part in (folder, folder / "deep"):
        check_runs(part, {"seed": seed}, keep=True)
        write_run(part / "a.json", {"is": part.name})
    return folder


def test_what_is_packed_comes_back(tmp_path: Path) -> None:
    runs = made(tmp_path / "runs")
    save_arrays(runs / "large.npz", {})
    (runs / "b.json").write_text(" " * (LARGEST + 1))
    assert pack_runs(runs, tmp_path / PACK) == 4
    assert unpack_runs(tmp_path / PACK, tmp_path / "again") == 4
    assert sorted(path.relative_to(tmp_path / "again").as_posix() for path in (tmp_path / "again").rglob("*.*")) == [
        "a.json",
        "deep/a.json",
        "deep/protocol.txt",
        "protocol.txt",
    ]
    assert read_run(tmp_path / "again" / "deep" / "a.json") == {"is": "deep"}
    before = (tmp_path / PACK).read_bytes()
    pack_runs(tmp_path / "again", tmp_path / PACK)
    assert (tmp_path / PACK).read_bytes() == before


def test_what_is_there_stays(tmp_path: Path) -> None:
    pack_runs(made(tmp_path / "runs"), tmp_path / PACK)
    folder = tmp_path / "again"
    check_runs(folder, {"seed": 1}, keep=True)
    write_run(folder / "a.json", {"is": "newer"})
    assert unpack_runs(tmp_path / PACK, folder) == 2
    assert read_run(folder / "a.json") == {"is": "newer"} and read_run(folder / "deep" / "a.json") == {"is": "deep"}


def test_runs_of_another_seed_are_not_mixed_in(tmp_path: Path) -> None:
    pack_runs(made(tmp_path / "runs"), tmp_path / PACK)
    check_runs(tmp_path / "again", {"seed": 2}, keep=True)
    assert unpack_runs(tmp_path / PACK, tmp_path / "again") == 2  # those of the folder within
    assert not (tmp_path / "again" / "a.json").exists()


def test_nothing_to_pack(tmp_path: Path) -> None:
    check_runs(tmp_path / "runs", {"seed": 1}, keep=True)
    assert pack_runs(tmp_path / "runs", tmp_path / PACK) == 0
    assert not (tmp_path / PACK).exists()
    assert unpack_runs(tmp_path / PACK, tmp_path / "again") == 0


def test_a_study_goes_on_from_its_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs, one each time; the folder of runs is lost in between."""
    seen: list[int] = []

    def run(results: Results, order: StudyOrder, deadline: Deadline) -> tuple[int, int]:
        check_runs(order.runs_folder, {"seed": order.seed}, keep=order.keep)
        seen.append(len(list(order.runs_folder.glob("*.json"))))
        write_run(order.runs_folder / f"{seen[-1]}.json", {})
        return seen[-1] + 1, 2

    monkeypatch.setattr("studies.harness.study.write_pages", lambda page, results: None)
    study = Study("none", "None", run, lambda order: 2, lambda results: Page("None", [], {}, {}, ""))
    order = StudyOrder(tmp_path / "kept", FULL, runs=tmp_path / "first")
    assert not reproduce(study, order)[1]
    assert reproduce(study, replace(order, runs=tmp_path / "second"))[1]
    assert seen == [0, 1] and sorted(path.name for path in (tmp_path / "second").glob("*.json")) == ["0.json", "1.json"]
    beside = StudyOrder(tmp_path / "beside", FULL)
    reproduce(study, beside)
    assert beside.pack is None and not (tmp_path / "beside" / PACK).exists()
