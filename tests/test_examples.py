"""The examples run as a newcomer would run them, with small settings, and say what they should."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
# What is run, and words of the last line. OUT is a folder that does not exist yet.
EXAMPLES = {
    "citations.py": (["--examples", "8", "--epochs", "4"], "accuracy of the trained system without citations"),
    "conv_grid.py": (["--steps", "3", "--size", "6"], "wrong pixels before training"),
    "gallery.py": (["--out", "OUT"], "arcs.svg"),
    "missing_cells.py": (["--out", "OUT.png"], "out.png"),
    "segmentation.py": (["--iterations", "1", "--shrink", "8", "--out", "OUT"], "segmentation.png"),
    "service.py": (["--load", "30"], '"p99"'),
    "surface_code.py": (["--steps", "10", "--shots", "200", "--out", "OUT.png"], "out.png"),
    "skip_chain.py": (["--documents", "6", "--epochs", "2"], "skip chain: accuracy"),
    "table.py": (["--epochs", "2"], "MSE of the beliefs"),
    "third_order.py": (["--count", "4"], "third order: squared error"),
    "tagged_trees.py": (["--sentences", "6", "--epochs", "2"], "right heads before training"),
}
NEEDS = {"surface_code.py": ("stim",)}  # beside what the library and its usual extras bring


def test_every_example_is_run() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(EXAMPLES)


SHOWN = (UserWarning, RuntimeWarning, FutureWarning)  # warnings that a newcomer would see


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, as ``python examples/NAME`` would run it in one of its own."""
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed, reason=f"needs {needed}, which is not installed")
    arguments, expected = EXAMPLES[name]
    given = [part.replace("OUT", str(tmp_path / "out")) for part in arguments]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [name, *given])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    said = capsys.readouterr()
    assert not said.err and not [one for one in caught if issubclass(one.category, SHOWN)]
    assert expected in said.out.strip().splitlines()[-1]
    for line in said.out.splitlines():
        if line.startswith("wrote "):
            assert Path(line.removeprefix("wrote ")).stat().st_size > 500


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_says_how_to_run_it(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert f"python examples/{name}" in text.split('"""')[1]
