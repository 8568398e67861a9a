"""Files of runs: those of one protocol do not mix with those of another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies.harness.runs import check_runs, file_name, load_arrays, save_arrays


def test_runs_of_another_protocol_are_not_mixed_in(tmp_path: Path) -> None:
    check_runs(tmp_path, {"seed": 1}, keep=True)
    (tmp_path / "a.json").touch()
    check_runs(tmp_path, {"seed": 1}, keep=False)
    with pytest.raises(ValueError, match="another protocol or seed"):
        check_runs(tmp_path, {"seed": 2}, keep=True)
    assert (tmp_path / "a.json").exists()
    check_runs(tmp_path, {"seed": 2}, keep=False)
    assert not (tmp_path / "a.json").exists()


def test_names_of_files_are_taken_by_any_system() -> None:
    assert file_name("Table 3", "a/b: c", 0.1) == "table-3-a-b--c-0.1.json"


def test_arrays_that_cannot_be_read(tmp_path: Path) -> None:
    save_arrays(tmp_path / "deep" / "a.npz", {"one": np.arange(3)})
    assert load_arrays(tmp_path / "deep" / "a.npz")["one"].tolist() == [0, 1, 2]
    (tmp_path / "b.npz").write_text("nothing of the kind")
    with pytest.raises(ValueError, match="delete it"):
        load_arrays(tmp_path / "b.npz")
