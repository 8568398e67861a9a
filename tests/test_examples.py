"""The examples run as a newcomer would run them, with small settings, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
# What is run, and words of the last line. OUT is a folder that does not exist yet.
EXAMPLES = {
    "citations.py": (["--examples", "8", "--epochs", "4"], "accuracy of the trained system without citations"),
    "conv_grid.py": (["--steps", "3", "--size", "6"], "wrong pixels before training"),
    "gallery.py": (["--out", "OUT"], "arcs.svg"),
    "segmentation.py": (["--iterations", "1", "--shrink", "8", "--out", "OUT"], "segmentation.png"),
    "service.py": (["--load", "30"], '"p99"'),
    "skip_chain.py": (["--documents", "6", "--epochs", "2"], "skip chain: accuracy"),
    "table.py": (["--epochs", "2"], "MSE of the beliefs"),
    "tagged_trees.py": (["--sentences", "6", "--epochs", "2"], "right heads before training"),
}


def test_every_example_is_run() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, tmp_path: Path) -> None:
    arguments, expected = EXAMPLES[name]
    out = tmp_path / "out"
    command = [sys.executable, str(FOLDER / name), *(str(out) if part == "OUT" else part for part in arguments)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr  # no warning either
    last = done.stdout.strip().splitlines()[-1]
    assert expected in last
    for line in done.stdout.splitlines():
        if line.startswith("wrote "):
            assert Path(line.removeprefix("wrote ")).stat().st_size > 500


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_says_how_to_run_it(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert f"python examples/{name}" in text.split('"""')[1]
