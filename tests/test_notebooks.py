"""The notebooks run from top to bottom, and whatever a cell ends with can be shown."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))


def hook() -> Any:
    spec = importlib.util.spec_from_file_location("notebooks_hook", ROOT / "docs_build" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; what its last line stands for, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_there_are_some_and_the_site_links_to_each() -> None:
    page = (ROOT / "docs" / "tutorials" / "notebooks.md").read_text()
    assert len(SCRIPTS) >= 6
    for script in SCRIPTS:
        assert f"notebooks/{script.stem}.ipynb" in page, script.stem


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebook(script: Path) -> None:
    module = hook()
    names: dict[str, Any] = {"__name__": "notebook"}
    shown = 0
    for cell in module.notebook(script.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            assert cell["source"] and not cell["source"].startswith("# %%")
            continue
        found = run(cell["source"], names)
        if hasattr(found, "_repr_html_"):
            assert "<" in found._repr_html_()
            shown += 1
    assert shown >= 1


def test_cells_of_a_script() -> None:
    text = "# %% [markdown]\n# # Title\n# words\n\n# %%\nx = 1\n\nx\n\n# %%\ny = 2\n"
    assert list(hook().cells(text)) == [("markdown", "# Title\nwords"), ("code", "x = 1\n\nx"), ("code", "y = 2")]
