"""``loopwise fit --structure auto`` and ``impute`` end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

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


def test_wishes_that_do_not_go_together(table: Path) -> None:
    auto = ("fit", table, "--outputs", "ill", "--structure", "auto")
    assert_one_sentence(invoke(*auto, "--loss", "mse"), "--loss is for", "leave it out")
    assert_one_sentence(invoke(*auto, "--missing", "x"), "--missing must be a share")
    assert_one_sentence(invoke("fit", table, "--outputs", "all", "--structure", "chain"), "--structure auto", "chain")
    assert_one_sentence(invoke(*auto, "--missing", "0.1", "--missing-like", table), "give one of them")
