"""Measures of a saved system."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from loopwise.cli.main import app
from oracles.commands import command

invoke, succeed = command(app)


FAST = ("--epochs", 4, "--iterations", 3, "--batch", 32, "--optimizer", "sgd", "--l2", 0)


def test_f1_of_one_label_among_several(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 96)
    seen = np.where(rng.random(96) < 0.9, kind, rng.integers(0, 3, 96))
    lines = [f"{'abc'[a]},{'xyz'[b]}" for a, b in zip(kind, seen, strict=True)]
    (tmp_path / "t.csv").write_text("kind,seen\n" + "\n".join(lines) + "\n")
    out, fit = tmp_path / "s.loopwise", ("fit", tmp_path / "t.csv", "--outputs", "kind", "--loss", "f1")
    succeed(*fit, "--positive", "b", "--out", out, *FAST, "--rate", 2)
    said = list(csv.DictReader(io.StringIO(succeed("predict", out, tmp_path / "t.csv").stdout)))
    assert all((row["kind"] == "b") == (line[-1] == "y") for row, line in zip(said, lines, strict=True))


@pytest.mark.parametrize("loss", ["f1", "mse", "l1", "hamming"])
def test_every_loss(loss: str, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.loopwise"
    arguments = ("fit", train, "--outputs", "rain", "--hidden", "mood", "--out", out, "--json", *FAST)
    report = json.loads(succeed(*arguments, "--loss", loss, "--rate", 2).stdout)
    losses = [epoch["loss"] for epoch in report["history"]["epochs"]]
    assert losses[-1] < losses[0] and report["hidden"] == 1 and report["outputs"] == 1 and report["rows"] == 64
    assert json.loads(succeed("evaluate", out, train, "--json").stdout)["measures"]["accuracy"] > 0.8
