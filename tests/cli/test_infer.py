"""``loopwise infer`` end to end: what it prints reads back, and is what the library says."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from loopwise.formats import read_map, read_mar, read_pr, write_evidence, write_uai
from oracles.commands import assert_one_sentence
from oracles.infer_files import invoke, loopy_model, succeed, tree_model, truth


def saved(result: Result, folder: Path) -> Path:
    path = folder / "solution"
    path.write_text(result.stdout)
    return path


@pytest.mark.parametrize("method", ["auto", "exact", "bp", "trw"])
def test_marginals_of_a_tree(model_file: Path, tmp_path: Path, method: str) -> None:
    result = (
        succeed(model_file, "--method", method, "--tolerance", 1e-12)
        if method in ("bp", "trw")
        else succeed(model_file, "--method", method)
    )
    model = tree_model()
    printed = read_mar(saved(result, tmp_path), model.cardinalities)
    if method != "trw":  # which is exact on trees of pairs only
        np.testing.assert_allclose(np.concatenate(printed), truth(model).states, atol=1e-9)
    assert result.stderr.count("\n") == 1  # the status line


@pytest.mark.parametrize("method", ["auto", "exact", "bp"])
def test_partition_function_is_a_decimal_logarithm(model_file: Path, tmp_path: Path, method: str) -> None:
    result = succeed(model_file, "--method", method, "--task", "PR")
    expected = truth(tree_model()).log_partition / math.log(10)
    assert read_pr(saved(result, tmp_path)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", ["auto", "exact", "bp"])
def test_most_probable_configuration(model_file: Path, tmp_path: Path, method: str) -> None:
    result = succeed(model_file, "--method", method, "--task", "MAP")
    assert read_map(saved(result, tmp_path)).tolist() == truth(tree_model()).best.tolist()


def test_search_where_elimination_does_not_fit(tmp_path: Path) -> None:
    model = loopy_model(side=4, strength=2.0)
    write_uai(tmp_path / "grid.uai", model)
    best = truth(model).best_score / math.log(10)
    beyond = ("--task", "MAP", "--memory-limit", 1e-9, "--seconds", 0.3)
    result = succeed(tmp_path / "grid.uai", *beyond, "--json")
    report = json.loads(result.stdout)
    assert report["status"]["method"] == "MapSearch"
    assert report["log10_score"] <= best + 1e-9 <= report["log10_bound"] + 2e-9
    assert report["optimal"] == report["status"]["exact"] == (report["relative_gap"] <= 1e-9)
    assert "score" in result.stderr and "upper bound" in result.stderr and result.stderr.count("\n") == 1
    exact = json.loads(succeed(tmp_path / "grid.uai", "--task", "MAP", "--json").stdout)
    assert exact["optimal"] and exact["relative_gap"] == 0 and exact["log10_score"] == pytest.approx(best)
    for method in ("bp", "trw"):
        guess = json.loads(succeed(tmp_path / "grid.uai", "--task", "MAP", "--json", "--method", method).stdout)
        assert guess["log10_score"] <= best + 1e-9 <= guess["log10_bound"] + 2e-9


def test_seconds_are_for_the_search(model_file: Path) -> None:
    assert_one_sentence(invoke(model_file, "--seconds", 1), "--seconds", "--task MAP", "MAR")
    assert_one_sentence(invoke(model_file, "--task", "MAP", "--method", "bp", "--seconds", 1), "--seconds", "auto")
    assert_one_sentence(invoke(model_file, "--task", "MAP", "--seconds", 0), "--seconds", "positive")


def test_a_watched_search_shows_its_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwise.cli import infer as module

    write_uai(tmp_path / "grid.uai", loopy_model(side=4, strength=3.0))
    beyond = ("--task", "MAP", "--memory-limit", 1e-9, "--seconds", 0.2)
    plain = succeed(tmp_path / "grid.uai", *beyond)
    monkeypatch.setattr(module, "is_interactive", lambda: True)
    assert succeed(tmp_path / "grid.uai", *beyond).stdout == plain.stdout  # what is shown goes to standard error


def test_evidence(model_file: Path, tmp_path: Path) -> None:
    evidence = {1: 2, 4: 0}
    write_evidence(tmp_path / "some.evid", evidence)
    result = succeed(model_file, "--evidence", tmp_path / "some.evid")
    expected = truth(tree_model(), evidence)
    np.testing.assert_allclose(np.concatenate(read_mar(saved(result, tmp_path))), expected.states, atol=1e-9)
    result = succeed(model_file, "--evidence", tmp_path / "some.evid", "--task", "MAP")
    assert read_map(saved(result, tmp_path)).tolist() == expected.best.tolist()


def test_out_writes_a_file_and_nothing_else(model_file: Path, tmp_path: Path) -> None:
    printed = succeed(model_file).stdout
    result = succeed(model_file, "--out", tmp_path / "solution.gz")
    assert result.stdout == ""
    assert gzip.decompress((tmp_path / "solution.gz").read_bytes()).decode() == printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.uai", "solution.gz"]


@pytest.mark.parametrize(("task", "key"), [("MAR", "marginals"), ("PR", "log10_partition"), ("MAP", "assignment")])
def test_json(model_file: Path, task: str, key: str) -> None:
    report = json.loads(succeed(model_file, "--task", task, "--json", "--method", "bp").stdout)
    assert report["task"] == task and report["method"] == "bp" and key in report
    assert report["status"]["exact"] and report["status"]["converged"] and report["status"]["sweeps"] > 0


def test_a_model_beyond_the_limit_is_refused_or_approximated(tmp_path: Path) -> None:
    write_uai(tmp_path / "grid.uai", loopy_model(side=8, strength=0.3))
    limit = ("--memory-limit", 1e-7)
    assert_one_sentence(invoke(tmp_path / "grid.uai", "--method", "exact", *limit), "limit")
    status = json.loads(succeed(tmp_path / "grid.uai", "--json", *limit).stdout)["status"]
    assert status["method"] == "BP" and not status["exact"] and any("chosen" in note for note in status["notes"])


def command(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loopwise", *map(str, arguments)], input=text, capture_output=True, text=True
    )


def test_the_real_command(model_file: Path, tmp_path: Path) -> None:
    done = command("infer", "-", "--task", "PR", text=model_file.read_text())
    assert done.returncode == 0
    (tmp_path / "solution").write_text(done.stdout)
    expected = truth(tree_model()).log_partition / math.log(10)
    assert read_pr(tmp_path / "solution") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("arguments", [["infer"], ["infer", "m.uai", "--nonsense"], ["nonsense"], ["infer", "no.uai"]])
def test_the_real_command_fails_in_one_sentence(arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_the_real_command_says_where_its_help_is() -> None:
    assert command("infer").stderr.rstrip().endswith("loopwise infer --help)")
    alone = command("parser")
    assert alone.returncode == 0 and "train" in alone.stdout and alone.stderr == ""
    assert command("infer", "-h").returncode == 0


def test_an_approximate_log_z_comes_between_bounds(tmp_path: Path) -> None:
    model = loopy_model(side=3)
    write_uai(tmp_path / "loopy.uai", model)
    result = succeed(tmp_path / "loopy.uai", "--task", "PR", "--method", "bp", "--json")
    report = json.loads(result.stdout)
    lower, upper = report["log10_partition_bounds"]
    assert lower < truth(model).log_partition / math.log(10) < upper
    assert "at least" in result.stderr and "at most" in result.stderr
    exact = json.loads(succeed(tmp_path / "loopy.uai", "--task", "PR", "--json").stdout)
    assert "log10_partition_bounds" not in exact


def test_a_bayesian_network_by_its_names(tmp_path: Path) -> None:
    """What a new user types who comes from Bayesian networks."""
    blocks = [f"variable {name} {{ type discrete [ 2 ] {{ no, yes }}; }}" for name in ("flu", "fever")]
    blocks += ["probability ( flu ) { table 0.9, 0.1; }"]
    blocks += ["probability ( fever | flu ) { (no) 0.95, 0.05; (yes) 0.2, 0.8; }"]
    (tmp_path / "flu.bif").write_text("\n".join(blocks))
    model = tmp_path / "flu.bif"
    report = json.loads(succeed(model, "--given", "fever=yes", "--json").stdout)
    assert report["named"]["flu"]["yes"] == pytest.approx(0.64) and report["model"]["observed"] == 1
    best = json.loads(succeed(model, "--given", "fever=yes", "--task", "MAP", "--json").stdout)
    assert best["named"] == {"flu": "yes", "fever": "yes"}
    assert_one_sentence(invoke(model, "--given", "fevr=yes"), "no variable is called 'fevr'; did you mean 'fever'?")
    assert_one_sentence(invoke(model, "--given", "fever=high"), "variable 'fever' has no value 'high'")
    assert_one_sentence(invoke(model, "--given", "fever"), "--given must be NAME=VALUE, not 'fever'")
    assert_one_sentence(invoke(model, "--given", "flu=no", "--given", "flu=yes"), "'flu' is given twice")


def test_explained(tmp_path: Path) -> None:
    """Four variables that all differ from each other: BP oscillates, and both outputs say so."""
    pairs = [(first, second) for first in range(4) for second in range(first)]
    scopes = "\n".join(f"2 {first} {second}" for first, second in pairs)
    tables = "\n".join("4 1 50 50 1" for _ in pairs)
    unary = "2 1 1.2"
    text = f"MARKOV\n4\n2 2 2 2\n7\n{scopes}\n1 0\n{tables}\n{unary}\n"
    (tmp_path / "model.uai").write_text(text)
    result = succeed(tmp_path / "model.uai", "--method", "bp", "--schedule", "flooding", "--explain", "--json")
    assert "beliefs oscillate" in result.stderr and "Advice: lw.Exact()" in result.stderr
    told = json.loads(result.stdout)["explanation"]
    assert told["kind"] == "oscillates" and told["frustrated"] and len(told["cycle"]) == 3
    assert told["advice"] == "lw.Exact()" and any(trial["converged"] for trial in told["trials"])
