"""``loopwise demo``: numbers that can be checked, and a picture that is one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from loopwise.cli.demo_experiment import experiment, random_spin_model, steps
from loopwise.cli.main import app
from loopwise.graph import grid
from oracle import enumerate_model

runner = CliRunner()


def test_table_and_picture(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--quick", "--out", str(tmp_path / "new")])
    assert result.exit_code == 0
    assert "mean field" in result.stdout and "FAILS" not in result.stdout
    assert (tmp_path / "new" / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_json(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--quick", "--json", "--out", str(tmp_path)])
    report = json.loads(result.stdout)
    assert Path(report["picture"]).exists()
    assert {cell["method"] for cell in report["cells"]} == {"BP", "TRW", "mean field"}
    assert all(cell["bound_holds"] in (True, None) for cell in report["cells"])


def test_measures_against_the_truth() -> None:
    told: list[str] = []
    findings = experiment(side=3, models=2, seed=5, progress=told.append)
    assert len(told) == steps()
    potentials = random_spin_model(grid(3, 3), 2.0, 2, 5)
    first = enumerate_model(grid(3, 3), {name: table[0] for name, table in potentials.items()})
    expected = np.array([marginal[1] for marginal in first.variables]).reshape(3, 3)
    np.testing.assert_allclose(findings.images["exact"], expected, atol=1e-10)
