"""Methods by their names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from loopwise.formats import read_mar, write_uai
from oracles.infer_files import loopy_model, succeed, tree_model, truth


def test_bounds_on_a_loopy_model(tmp_path: Path) -> None:
    write_uai(tmp_path / "grid.uai", loopy_model())
    value = {
        method: json.loads(succeed(tmp_path / "grid.uai", "--task", "PR", "--json", "--method", method).stdout)
        for method in ("exact", "trw", "meanfield")
    }
    log10 = {method: report["log10_partition"] for method, report in value.items()}
    assert log10["meanfield"] < log10["exact"] < log10["trw"]
    assert [value[method]["status"]["exact"] for method in log10] == [True, False, False]


def test_gibbs_comes_near_and_keeps_its_seed(model_file: Path, tmp_path: Path) -> None:
    first, again, other = (
        succeed(model_file, "--method", "gibbs", "--iterations", 2000, "--seed", seed).stdout for seed in (1, 1, 2)
    )
    assert first == again != other
    solution = tmp_path / "solution"
    solution.write_text(first)
    np.testing.assert_allclose(np.concatenate(read_mar(solution)), truth(tree_model()).states, atol=0.02)
