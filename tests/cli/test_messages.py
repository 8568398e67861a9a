"""What commands say when something is wrong."""

from __future__ import annotations

from pathlib import Path

from loopwise.formats import write_uai
from oracles.commands import assert_one_sentence
from oracles.infer_files import invoke, loopy_model, succeed


def test_warning_is_one_line(tmp_path: Path) -> None:
    write_uai(tmp_path / "hard.uai", loopy_model(strength=3.0))
    result = succeed(tmp_path / "hard.uai", "--method", "bp", "--iterations", 2, "--tolerance", 1e-12)
    warning, status = result.stderr.splitlines()
    assert warning.startswith("warning: BP did not converge") and "NOT CONVERGED" in status


def test_other_mistakes_are_one_sentence(model_file: Path, tmp_path: Path) -> None:
    assert_one_sentence(invoke(tmp_path / "absent.uai"), "absent.uai", "no such file")
    assert_one_sentence(invoke(tmp_path), ".uai, .fg or .bif")
    assert_one_sentence(invoke(model_file, "--method", "gibbs", "--task", "PR"), "gibbs", "PR", "exact")
    assert_one_sentence(invoke(model_file, "--method", "exact", "--damping", 0.5), "--damping", "--memory-limit")
    assert_one_sentence(invoke(model_file, "--method", "bp", "--damping", 1.5), "damping", "1.5")
    assert_one_sentence(invoke("-", "--evidence", "-"), "standard input")
    (tmp_path / "bad.evid").write_text("1 0 7\n")
    assert_one_sentence(invoke(model_file, "--evidence", tmp_path / "bad.evid"), "variable 0", "7")
