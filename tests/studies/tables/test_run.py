"""The study of tables in miniature: a made table, two methods; the same cells for all, and it goes on where it was."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from studies.harness.results import QUICK
from studies.harness.study import StudyOrder, reproduce
from studies.tables import claims, run
from studies.tables.data import FOLDS, folds_of, read_data, taken_away
from studies.tables.methods import MAJORITY, NAIVE, OURS, TAN


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with one table: the class is told by a label and, less surely, by a number; a column names rows."""
    rng = np.random.default_rng(0)
    lines = ["@relation made", "@attribute name {" + ",".join(f"n{row}" for row in range(60)) + "}"]
    lines += ["@attribute size numeric", "@attribute colour {red,blue}", "@attribute class {a,b}", "@data"]
    for row in range(60):
        kind = int(rng.integers(2))
        size = "?" if row % 10 == 0 else f"{kind + 2 * rng.random():.2f}"
        lines.append(f"n{row},{size},{('red', 'blue')[kind]},{'ab'[kind]}")
    (tmp_path / "tables").mkdir()
    with gzip.open(tmp_path / "tables" / "made.arff.gz", "wt") as stream:
        stream.write("\n".join(lines) + "\n")
    return tmp_path


def test_cells_folds_and_what_is_taken_away(made: Path) -> None:
    table = read_data(made, "made")
    assert table.numeric == (True, False, False) and table.cells.shape == (60, 3), (
        "a column that names rows is left out"
    )
    fold = folds_of(table, seed=0)
    assert np.bincount(fold, minlength=FOLDS).tolist() == [12] * FOLDS and (fold == folds_of(table, seed=0)).all()
    lost = taken_away(table.cells, 1, 0.5, seed=0, salt="x")
    same = taken_away(table.cells, 1, 0.5, seed=0, salt="x")
    assert ((lost == same) | (lost != lost)).all() and (lost[:, -1] == table.cells[:, -1]).all()
    share = np.mean([cell is None for cell in lost[:, 1]])
    assert 0.3 < share < 0.7
    assert (taken_away(table.cells, 1, 0.0, seed=0, salt="x") == table.cells).all()


def test_the_whole_in_miniature(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = run.TablesProtocol(("made",), 1, (0.0,), (), 2, test_rows=24)
    monkeypatch.setitem(run.PROTOCOLS, QUICK, tiny)
    monkeypatch.setattr(run, "METHODS", (NAIVE, TAN))
    monkeypatch.setattr(claims, "NAMES", ("made",))
    order = StudyOrder(tmp_path / "out", data=made, workers=1)
    results, complete = reproduce(run.STUDY, order)
    assert complete and run.STUDY.steps(order) == 1
    found = {(cell.row, cell.column): cell.ours for cell in results.of_item("accuracy")}
    assert found[NAIVE, "0% missing"] == 1.0 > found[NAIVE, "70% missing"] > 0.4
    assert found[MAJORITY, "0% missing"] == found[MAJORITY, "70% missing"]
    assert (OURS, "0% missing") not in found
    assert all(claim.holds is None for claim in results.claims)
    path = next((tmp_path / "out" / "runs").glob("made*.json"))
    before = path.stat().st_mtime_ns
    assert reproduce(run.STUDY, replace(order))[1] and path.stat().st_mtime_ns == before
