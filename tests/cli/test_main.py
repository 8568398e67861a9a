"""The command line as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loopwise.cli.main import app
from loopwise.formats import TableModel, write_uai


@pytest.fixture
def model(tmp_path: Path) -> Path:
    pairs = [((0, 1), np.array([[1.0, 2.0], [2.0, 1.0]]))]
    write_uai(tmp_path / "model.uai", TableModel.of([2, 2], pairs))
    return tmp_path / "model.uai"


def test_the_command_line_shows_the_log_when_asked(model: Path) -> None:
    quiet = CliRunner().invoke(app, ["infer", str(model)])
    verbose = CliRunner().invoke(app, ["-v", "infer", str(model)])
    detailed = CliRunner().invoke(app, ["-vv", "infer", str(model)])
    again = CliRunner().invoke(app, ["infer", str(model)])
    assert quiet.exit_code == verbose.exit_code == 0
    assert quiet.stdout == verbose.stdout == detailed.stdout  # the log is not part of the answer
    assert "loopwise.inference.auto:" not in quiet.stderr and quiet.stderr == again.stderr
    assert "loopwise.inference.auto: Exact: chosen since" in verbose.stderr
    assert (
        "loopwise.inference.exact.method:" in detailed.stderr
        and "loopwise.inference.exact.method:" not in verbose.stderr
    )
