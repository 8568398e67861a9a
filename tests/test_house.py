"""The house rules: imports go one way, importing is cheap, names and versions agree."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import loopwise

ROOT = Path(__file__).resolve().parents[1]


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_data_flows_one_way() -> None:
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", ["loopwise", "loopwise.cli.main"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = ("torch", "numba", "scipy", "matplotlib")
    assert run_python(f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_every_public_name_exists() -> None:
    assert len(set(loopwise.__all__)) == len(loopwise.__all__)
    for name in loopwise.__all__:
        assert getattr(loopwise, name) is not None
        assert name in dir(loopwise)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        loopwise.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    """The names imported for type checkers are those that are there at run time."""
    import ast

    tree = ast.parse((ROOT / "src/loopwise/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == set(loopwise.__all__)


def test_versions_agree() -> None:
    declared = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
    assert declared == loopwise.__version__ == version("loopwise")
    shown = subprocess.run(
        [sys.executable, "-m", "loopwise", "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert shown.split() == ["loopwise", declared]


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/loopwise/py.typed").exists()
