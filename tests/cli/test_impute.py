"""``loopwise fit --structure auto`` and ``impute`` end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps import Table
from loopwise.apps.table import selection, training
from loopwise.cli.main import app
from oracles.commands import assert_one_sentence, command

invoke, succeed = command(app)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(training, "LEAST_STEPS", 20)
    monkeypatch.setattr(selection, "PATH", (30.0,))
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 90)
    rows = [
        ["pqr"[k] if rng.random() > 0.2 else "", f"{10 * k + rng.normal():.2f}", "yes" if k else "no", f"id{number}"]
        for number, k in enumerate(kind)
    ]
    path = tmp_path / "train.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["kind", "size", "ill", "id"], *rows])
    return path


def test_from_a_table_to_one_without_empty_cells(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.loopwise"
    fit = ("fit", table, "--outputs", "all", "--ignore", "id", "--out", model, "--json")
    report = json.loads(succeed(*fit).stdout)
    assert report["columns"]["size"].startswith("numbers") and report["outputs"] == []
    before = list(csv.DictReader(table.open()))
    after = list(csv.DictReader(io.StringIO(succeed("impute", model, table, "--probabilities").stdout)))
    assert all(row["kind"] for row in after) and [row["id"] for row in after] == [row["id"] for row in before]
    assert all(new["kind"] == old["kind"] for new, old in zip(after, before, strict=True) if old["kind"])
    assert {row["kind probability"] for row, old in zip(after, before, strict=True) if old["kind"]} == {"1"}
    drawn = list(csv.DictReader(io.StringIO(succeed("impute", model, table, "--samples", 2).stdout)))
    assert [row["sample"] for row in drawn] == ["1"] * 90 + ["2"] * 90 and all(row["kind"] for row in drawn)
    said = succeed("predict", model, table, "--columns", "ill", "--ignore", "id").stdout.split()
    assert np.mean([one == row["ill"] for one, row in zip(said[1:], before, strict=True)]) > 0.9
    assert_one_sentence(invoke("predict", model, table, "--ignore", "id"), "name those that are wanted by --columns")
    assert_one_sentence(invoke("impute", model, table, "--samples", 2, "--probabilities"), "give one of them")
    other = tmp_path / "other.csv"
    other.write_text("Size,illness\n1,yes\n,no\n")
    assert_one_sentence(invoke("impute", model, other), "other.csv has no column that the model knows", "'size'?")
    assert_one_sentence(invoke("impute", model, other, "--out", tmp_path / "never"), "other.csv")
    assert not (tmp_path / "never").exists()
    other.write_text("a,y\n1e400,p\n2,q\n3,p\n")
    large = ("fit", other, "--outputs", "y", "--structure", "auto", "--out", tmp_path / "never")
    assert_one_sentence(invoke(*large), "column 'a' holds '1e400' in row 1, more than a number can be")
    other.write_text("size\n3\n1e400\n")
    assert_one_sentence(
        invoke("impute", model, other), "column 'size' holds '1e400' in row 2, more than a number can be"
    )


def test_training_for_the_cells_that_will_be_missing(table: Path, tmp_path: Path) -> None:
    model, curve = tmp_path / "m.loopwise", tmp_path / "curve.png"
    basic = ("fit", table, "--outputs", "ill", "--ignore", "id", "--out", model)
    drawn = succeed(*basic, "--missing", "0.3", "--curve", curve)
    assert "factors added; development loss" in drawn.stdout and "kind: labels, 3 values" in drawn.stdout
    assert curve.exists() or "no curve to draw" in drawn.stderr
    like = json.loads(succeed(*basic, "--missing-like", table, "--structure", "auto", "--json").stdout)
    assert like["outputs"] == ["ill"] and like["development_loss"] > 0
    warned = invoke("predict", model, _without_sizes(table, tmp_path), "--ignore", "id")
    assert warned.exit_code == 0 and len(warned.stdout.split()) == 91


def test_cells_that_training_never_missed_are_told_of(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.loopwise"
    succeed("fit", table, "--outputs", "ill", "--ignore", "id", "--out", model, "--missing", "kind=0.4")
    holes = _without_sizes(table, tmp_path)
    for command_name in ("predict", "evaluate"):
        said = succeed(command_name, model, holes, "--ignore", "id").stderr
        assert "rows miss 'size', which training never missed" in said
        assert "never missed" not in succeed(command_name, model, table, "--ignore", "id").stderr


def test_what_is_no_empty_cell_stays(table: Path, tmp_path: Path) -> None:
    model, new = tmp_path / "m.loopwise", tmp_path / "new.csv"
    succeed("fit", table, "--outputs", "all", "--ignore", "id", "--out", model)
    new.write_text('kind,size,ill\nstrange,n/a,\n,1.0,no\n"p",,yes\n')
    rows = list(csv.DictReader(io.StringIO(succeed("impute", model, new, "--probabilities").stdout)))
    assert (rows[0]["kind"], rows[0]["size"]) == ("strange", "n/a") and rows[0]["ill"] in ("yes", "no")
    assert rows[0]["kind probability"] == rows[0]["size probability"] == "1" > rows[1]["kind probability"]


def test_files_of_python_and_of_the_command_line_are_alike(table: Path, tmp_path: Path) -> None:
    """Truth values, and numbers as labels, are the same in a data frame and in the file that it writes."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(table).drop(columns="id")
    frame["flag"], frame["ill"] = frame["kind"] == "p", (frame["ill"] == "yes").astype(int)
    frame.to_csv(tmp_path / "new.csv", index=False)
    here, there = tmp_path / "here.loopwise", tmp_path / "there.loopwise"
    Table(outputs="ill").fit(frame, progress=False).save(here)
    succeed("fit", tmp_path / "new.csv", "--outputs", "ill", "--structure", "auto", "--out", there)
    models = [Table.load(path) for path in (here, there)]
    assert models[1].predict(frame).dtype == models[0].predict(frame).dtype == np.int64
    for model, path in zip(models, (here, there), strict=True):
        said = succeed("predict", path, tmp_path / "new.csv")
        assert said.stdout.split()[1:] == list(map(str, model.predict(frame))) and "warning" not in said.stderr
        assert model.score(frame, frame["ill"]) > 0.9
    np.testing.assert_allclose(models[0].predict_proba(frame), models[1].predict_proba(frame), atol=1e-9)


def _without_sizes(table: Path, folder: Path) -> Path:
    rows = list(csv.reader(table.open()))
    path = folder / "holes.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([rows[0], *([kind, "", ill, name] for kind, _, ill, name in rows[1:])])
    return path


def test_wishes_that_do_not_go_together(table: Path) -> None:
    auto = ("fit", table, "--outputs", "ill", "--structure", "auto")
    chain = ("fit", table, "--outputs", "ill", "--structure", "chain")
    assert_one_sentence(invoke(*chain, "--curve", "c.png"), "--curve draws what --structure auto tried")
    assert_one_sentence(invoke(*auto, "--loss", "mse"), "--loss is for", "leave it out")
    assert_one_sentence(invoke(*auto, "--missing", "x"), "--missing must be a share")
    assert_one_sentence(invoke("fit", table, "--outputs", "all", "--structure", "chain"), "--structure auto", "chain")
    assert_one_sentence(invoke(*auto, "--missing", "0.1", "--missing-like", table), "give one of them")
    assert_one_sentence(invoke(*auto, "--missing", "kind=0.1,0.2"), "--missing must be a share", "'kind=0.1,0.2'")
    assert_one_sentence(invoke(*auto, "--missing", "height=0.1"), "no input column is called 'height'")
    assert_one_sentence(invoke(*auto, "--numbers", "height"), "no column 'height' of numbers")
    assert_one_sentence(invoke(*auto, "--curve", "c.txt"), "'c.txt' does not end in a kind of picture")
    other = table.with_name("other.csv")
    other.write_text("a,b\n1,2\n")
    assert_one_sentence(invoke(*auto, "--missing-like", other), "has no input column", "'kind', 'size', 'id'")


def test_numbers_mixed_with_texts_are_told_of(table: Path) -> None:
    rows = list(csv.reader(table.open()))
    rows[3][1] = "large"
    with table.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    said = succeed("fit", table, "--outputs", "ill", "--structure", "auto", "--ignore", "id").stderr
    assert "column 'size' holds 89 numbers and 1 texts such as 'large'" in said
