"""The MAP benchmark on made-up models: its verdicts, its page, that a rerun continues."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from loopwise.formats import TableModel, write_evidence, write_uai

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import map as map_benchmark
from common import Instance

pytestmark = pytest.mark.filterwarnings("ignore::loopwise.notices.LoopwiseWarning")


def ring(seed: int, size: int = 8) -> TableModel:
    rng = np.random.default_rng(seed)
    pairs = [((k, (k + 1) % size), np.exp(2 * rng.normal(size=(2, 2)))) for k in range(size)]
    return TableModel.of([2] * size, [*pairs, ((0, 4), np.exp(2 * rng.normal(size=(2, 2))))])


def test_scores_are_of_the_file() -> None:
    model = TableModel.of([2, 2], [((0, 1), np.array([[1.0, 2.0], [0.0, 4.0]]))])
    assert map_benchmark.score_of(Instance("m", model), np.array([0, 1])) == pytest.approx(np.log(2.0))
    assert map_benchmark.score_of(Instance("m", model), np.array([1, 0])) == -np.inf
    assert map_benchmark.score_of(Instance("m", model, {0: 1}), np.array([0, 1])) == -np.inf


def test_a_run_and_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "uai" / "uai2014"
    folder.mkdir(parents=True)
    for seed in range(2):
        write_uai(folder / f"Ring_{seed}.uai.gz", ring(seed))
        write_evidence(folder / f"Ring_{seed}.uai.evid", {3: seed})
    out, results = tmp_path / "map.md", tmp_path / "map.json"
    given = ["--data", str(tmp_path), "--seconds", "0.1", "--out", str(out), "--results", str(results)]
    assert map_benchmark.main(given) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["instances"] == last["eliminated"] == last["optimal"] == 2 and last["checks_passed"]
    assert "| Ring_1 | 8 | e |" in out.read_text() and "Every check passed" in out.read_text()
    assert "\n\n**The most probable assignment is found and proved on 2 of 2 instances.**\n\n" in out.read_text()
    saved = json.loads(results.read_text())
    saved["instances"]["Ring_0"]["search"]["score"] -= 1.0  # a rerun takes what is saved
    results.write_text(json.dumps(saved))
    assert map_benchmark.main(given) == 0
    assert json.loads(results.read_text()) == saved


def test_verdicts() -> None:
    found = {"score": 1.0, "bound": 2.0, "gap": 0.5, "optimal": False}
    record = {"search": found, "icm": {"score": 1.5}, "icm_same_seconds": {"score": None}, "exact": {"solved": False}}
    assert map_benchmark._checks(record) == {
        "possible": True, "bound_holds": True, "optimal_is_optimal": True, "search_not_below_icm": False,
    }  # fmt: skip
    record["exact"] = {"solved": True, "score": 3.0}
    assert not map_benchmark._checks(record)["bound_holds"]
    record["search"] = {**found, "optimal": True}
    assert not map_benchmark._checks(record)["optimal_is_optimal"]
