"""Table 2 on made-up data: what is run, saved, gone on with, and claimed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oracles.label_cases import make_data
from studies.harness.results import FILE, FULL, QUICK, Cell, Deadline, Results
from studies.harness.study import StudyOrder
from studies.samplerank.multilabel.claims import p_value, table2_claims
from studies.samplerank.multilabel.run import (
    ALL_VALUES,
    FORCED,
    HYBRID,
    ITEM,
    PRINTED,
    PROTOCOLS,
    ROWS,
    SAMPLERANK,
    SCENE,
    SVM,
    YEAST,
    MultiLabelProtocol,
    find_data,
    methods,
    run_table2,
)

SMALL = MultiLabelProtocol(
    runs=2,
    folds=2,
    epochs=2,
    sweeps=2,
    caps=(1e-2, 1e-1),
    rates=(0.1,),
    strengths=(0.1,),
    penalties=(1.0,),
    risk_penalties=(1.0,),
    batch=10,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("data")
    for place, (name, labels) in enumerate((("scene", 3), ("yeast", 4))):
        folder = top / "multilabel" / name
        folder.mkdir(parents=True)
        names = [f"y{label}" for label in range(labels)]
        (folder / f"{name}.xml").write_text("<l>" + "".join(f"<label name='{one}'/>" for one in names) + "</l>")
        for part, seed in (("train", 1), ("test", 2)):
            x, y = make_data(50, labels=labels, features=3, seed=seed + place)
            head = [f"@attribute x{feature} numeric" for feature in range(3)]
            head += [f"@attribute {one} {{0,1}}" for one in names]
            rows = [",".join(f"{value:g}" for value in row) for row in np.column_stack([x.round(3), y])]
            (folder / f"{name}-{part}.arff").write_text("\n".join(["@relation r", *head, "@data", *rows]))
    return top


def test_every_row_is_run_and_saved(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, SMALL)
    results = Results.open(tmp_path, "samplerank", QUICK, 0)
    told: list[int] = []
    order = StudyOrder(tmp_path, data=folder, tell=lambda what, done: told.append(done))
    assert run_table2(results, order, Deadline(None)) == (2 * len(ROWS), 2 * len(ROWS))
    assert told[-1] == 2 * len(ROWS) == len(list(results.of_item(ITEM)))
    stored = json.loads((tmp_path / FILE).read_text())
    for cell in stored["cells"]:
        method = next(method for method in methods(SMALL) if method.row == cell["row"])
        assert cell["n"] == len(cell["runs"]) == (2 if method.random else 1)
        assert cell["ours"] == pytest.approx(np.mean(cell["runs"])) and 0 < cell["ours"] < 45
        assert cell["published"] == PRINTED.get(cell["row"], {}).get(cell["column"], {}).get("error")
        assert cell["size"] in method.sizes and 1 <= cell["epochs"] <= SMALL.epochs
        tried = cell["held_out"]
        assert tried[f"{cell['size']:g}"]["error"] == min(entry["error"] for entry in tried.values())
    assert all(claim.holds is None for claim in table2_claims(results))  # two runs say nothing
    forced, plain = results.find(ITEM, FORCED, SCENE), results.find(ITEM, SAMPLERANK, SCENE)
    assert forced is not None and forced.more["moved"] == forced.more["ranked"] == 1  # no draw is wasted
    assert plain is not None and plain.more["moved"] == plain.more["ranked"] < 1  # binary: every change is ranked


def test_a_stopped_table_goes_on_as_if_it_had_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROTOCOLS, QUICK, SMALL)
    only = [method for method in methods(SMALL) if method.row == SAMPLERANK]
    monkeypatch.setattr("studies.samplerank.multilabel.run.methods", lambda protocol: only)
    order = StudyOrder(tmp_path, seed=3, data=folder)
    whole = Results.open(tmp_path / "whole", "samplerank", QUICK, 3)
    assert run_table2(whole, order, Deadline(None)) == (2, 2)
    calls = 0

    class Soon(Deadline):
        @property
        def passed(self) -> bool:
            nonlocal calls
            calls += 1
            return calls > 3  # two sizes are tried, then there is one run

    first = Results.open(tmp_path / "parts", "samplerank", QUICK, 3)
    assert run_table2(first, order, Soon(None)) == (0, 2)
    (cell,) = first.of_item(ITEM)
    assert cell.n == 1 and set(cell.more["held_out"]) == {"0.01", "0.1"}
    second = Results.open(tmp_path / "parts", "samplerank", QUICK, 3)
    assert run_table2(second, order, Deadline(None)) == (2, 2)
    for name in (SCENE, YEAST):
        one, other = whole.find(ITEM, SAMPLERANK, name), second.find(ITEM, SAMPLERANK, name)
        assert one is not None and other is not None and one.more["runs"] == other.more["runs"]


def made(tmp_path: Path, errors: dict[str, float]) -> dict[str, bool | None]:
    results = Results(tmp_path, "samplerank", FULL, 0)
    for row, error in errors.items():
        for name in (SCENE, YEAST):
            runs = [error + noise for noise in (-0.01, 0.0, 0.01, 0.005)]
            results.put(Cell(ITEM, row, name, float(np.mean(runs)), n=4, more={"runs": runs, "moved": 0.3}))
    return {claim.id: claim.holds for claim in table2_claims(results)}


def test_claims(tmp_path: Path) -> None:
    as_printed = {"PCD": 9.8, "Pegasos": 9.5, SAMPLERANK: 9.6, SVM: 9.4}
    modes = {HYBRID: 9.4, ALL_VALUES: 9.45, FORCED: 9.45}
    found = made(tmp_path, {**as_printed, **modes})
    assert all(found.values()) and len(found) == 6
    other = made(tmp_path, {**as_printed, **modes, SVM: 9.9, HYBRID: 9.9})
    assert not any(other[name] for name in ("table2-yeast", "table2-scene", "table2-pcd", "table2-wasted"))
    assert other["table2-hybrid"] is False
    useless = made(tmp_path, {**as_printed, HYBRID: 9.4, ALL_VALUES: 9.6, FORCED: 9.6})
    assert useless["table2-wasted"] is False and useless["table2-yeast"] is True
    assert made(tmp_path, {**as_printed, **modes, "PCD": 30.0})["table2-level"] is False
    assert p_value([1.0, 1.0], [1.0, 1.0]) == 1.0


def test_data_that_is_not_there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_data(folder) == find_data(folder / "multilabel") == folder / "multilabel"
    monkeypatch.setenv("LOOPWISE_DATA", str(folder))
    assert find_data(None) == folder / "multilabel"
    with pytest.raises(ValueError, match="scene and yeast"):
        find_data(tmp_path)
