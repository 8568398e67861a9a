"""``loopwise compare-gradients`` end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from loopwise.cli.main import app
from loopwise.formats import TableModel, write_evidence, write_uai

runner = CliRunner()


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """A cycle of 4 variables with mixed cardinalities and a factor on one of them."""
    rng, cards = np.random.default_rng(0), [2, 3, 2, 2]
    scopes = [(0,), (0, 1), (1, 2), (2, 3), (3, 0)]
    model = TableModel.of(cards, [(scope, rng.random([cards[v] for v in scope]) + 0.2) for scope in scopes])
    write_uai(tmp_path / "model.uai", model)
    return tmp_path / "model.uai"


def invoke(*arguments: object) -> Result:
    return runner.invoke(app, ["compare-gradients", *map(str, arguments), "--repeats", "1"])


def test_table_and_picture(model_file: Path, tmp_path: Path) -> None:
    result = invoke(model_file, "--method", "exact", "--plot", tmp_path / "picture.png")
    assert result.exit_code == 0, result.stderr
    assert "Covariance" in result.stdout and "not valid" in result.stdout
    assert "Exact cannot be differentiated by Unroll" in result.stdout
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", ["bp", "trw", "exact"])
def test_json(model_file: Path, method: str) -> None:
    report = json.loads(invoke(model_file, "--method", method, "--json", "--seed", 3).stdout)
    assert report["model"]["variables"] == 4 and report["seed"] == 3
    best = min(row["error"] for row in report["rows"] if row["valid"])
    assert best < 1e-8
    for row in report["rows"]:
        assert row["valid"] == (row["reason"] is None) == (row["error"] is not None)


@pytest.mark.parametrize("loss", ["univariate", "clique", "univariate-quadratic", "clique-quadratic"])
def test_losses_and_evidence(model_file: Path, tmp_path: Path, loss: str) -> None:
    write_evidence(tmp_path / "model.evid", {1: 2})
    result = invoke(model_file, "--method", "exact", "--loss", loss, "--evidence", tmp_path / "model.evid", "--json")
    report = json.loads(result.stdout)
    assert report["loss"] == loss and report["model"]["observed"] == 1
    assert report["rows"][0]["error"] < 1e-8


def test_truncated_runs_rule_out_implicit_gradients(model_file: Path) -> None:
    report = json.loads(invoke(model_file, "--iterations", 2, "--tolerance", 0, "--json").stdout)
    rows = {row["estimator"]: row for row in report["rows"]}
    assert rows["Unroll"]["error"] < 1e-8
    assert all("converge" in rows[name]["reason"] for name in ("LinearSolve", "FixedPoint", "OneStep"))


def test_errors_are_one_sentence(model_file: Path, tmp_path: Path) -> None:
    for arguments, words in [
        ((tmp_path / "none.uai",), "none.uai"),
        ((model_file, "--method", "exact", "--iterations", 3), "--iterations"),
        ((model_file, "--plot", tmp_path / "no" / "p.png", "--method", "exact"), "folder"),
    ]:
        result = invoke(*arguments)
        assert result.exit_code == 2 and result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
        assert words in result.stderr
