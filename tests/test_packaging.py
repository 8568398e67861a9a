"""What is installed: metadata, commands, completion. Building and installing a wheel is ``make package``."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest

import loopwise

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "loopwise"
COMMANDS = {
    "infer",
    "fit",
    "predict",
    "evaluate",
    "card",
    "parser",
    "tagger",
    "multilabel",
    "denoise",
    "coref",
    "decode",
    "dedupe",
    "demo",
    "warm",
}
LOOPWISE = [sys.executable, "-c", "import sys; sys.argv[0] = 'loopwise'; from loopwise.cli.main import run; run()"]


def shell_out(*arguments: str, **environment: str) -> str:
    """What the command ``loopwise`` writes, under its own name."""
    done = subprocess.run(
        [*LOOPWISE, *arguments], env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return done.stdout


# --- Metadata --------------------------------------------------------------------------------------------------------


def project() -> str:
    return (ROOT / "pyproject.toml").read_text()


def test_the_pythons_that_are_named_are_those_required() -> None:
    minors = [int(minor) for minor in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', project())]
    (least,) = re.findall(r'^requires-python = ">=3\.(\d+)"$', project(), re.MULTILINE)
    assert minors == list(range(int(least), 15))
    assert '"Typing :: Typed"' in project()
    assert metadata("loopwise")["Requires-Python"] == f">=3.{least}"


def test_sources_are_of_the_oldest_python() -> None:
    """As far as syntax tells."""
    for path in SOURCE.rglob("*.py"):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 11))


def test_what_is_imported_is_declared() -> None:
    """Third-party packages that modules import at their top are required, under any of their names."""
    names = {"PIL": "pillow", "llvmlite": "numba"}  # the latter brings the former, of its own version
    declared = {
        re.split(r"[<>=;\[ ]", entry)[0].lower() for entry in requires("loopwise") or [] if "extra" not in entry
    }
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            for module in (name.partition(".")[0] for name in modules):
                known = module in sys.stdlib_module_names or module == "loopwise"
                assert known or names.get(module, module) in declared, f"{path.name} imports {module}"


def test_the_conda_recipe_asks_for_the_same() -> None:
    recipe = (ROOT / "recipe" / "meta.yaml").read_text()
    assert f'set version = "{loopwise.__version__}"' in recipe
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project(), re.MULTILINE | re.DOTALL)
    names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    wanted = {re.sub(r"^\w+", lambda name: names.get(name[0], name[0]), each) for each in re.findall(r'"(.+)"', listed)}
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    asked = {each.replace(" ", "") for each in re.findall(r"- (.+)", run)}
    (least,) = re.findall(r'^requires-python = "(.+)"$', project(), re.MULTILINE)
    assert asked == wanted | {f"python{least}"}
    host = {each.replace(" ", "") for each in re.findall(r"- (.+)", recipe.split("  host:\n")[1].split("  run:\n")[0])}
    (backend,) = re.findall(r'^requires = \["(.+)"\]$', project(), re.MULTILINE)
    assert host == {f"python{least}", "pip", backend}
    (script,) = re.findall(r'^loopwise = "(loopwise\..+)"$', project(), re.MULTILINE)
    assert re.findall(r"- (loopwise = .+)", recipe) == [f"loopwise = {script}"]
    for field, name in (("description", "summary"), ("license", "license")):
        (said,) = re.findall(rf'^{field} = "(.+)"$', project(), re.MULTILINE)
        assert f"  {name}: {said}\n" in recipe


def test_the_commands_that_the_conda_recipe_tests_run() -> None:
    """As far as they are Python's: imports, and one line of code."""
    recipe = (ROOT / "recipe" / "meta.yaml").read_text()
    listed = recipe.split("  imports:\n")[1].split("  commands:\n")[0]
    imports = re.findall(r"    - (loopwise[\w.]*)$", listed, re.MULTILINE)
    (code,) = re.findall(r'- python -c "(.+)"', recipe)
    lines = [*(f"import {name}" for name in imports), code]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, text=True)
    assert len(imports) == 3 and done.stdout.startswith("BP: exact")


def test_the_pythons_of_the_matrix_are_those_required() -> None:
    """SPEC 0: three years of Pythons, and the one the pinned set was made on."""
    (matrix,) = re.findall(r"python: \[(.+)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert re.findall(r"3\.\d+", matrix) == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project())


def test_every_folder_of_modules_is_a_package() -> None:
    """Else the wheel would lack it."""
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_files_beside_the_modules_are_declared() -> None:
    """A file that is no module is in the wheel only if tool.setuptools.package-data names its kind."""
    (listed,) = re.findall(r"^loopwise = \[(.*)\]$", project().split("[tool.setuptools.package-data]")[1], re.MULTILINE)
    patterns = re.findall(r'"([^"]+)"', listed)
    others = [p for p in SOURCE.rglob("*") if p.is_file() and p.suffix != ".py" and "__pycache__" not in p.parts]
    for path in others:
        inside = path.relative_to(SOURCE)
        assert any(inside.match(pattern) for pattern in patterns), f"{inside} would not be in the wheel"
    assert SOURCE / "py.typed" in others


# --- Commands --------------------------------------------------------------------------------------------------------


def test_version_and_help_by_every_way_in() -> None:
    assert shell_out("--version").split() == ["loopwise", loopwise.__version__]
    as_module = subprocess.run([sys.executable, "-m", "loopwise"], check=True, capture_output=True, text=True).stdout
    assert all(command in as_module for command in COMMANDS)
    assert "--version" in as_module and "--verbose" in as_module and "--install-completion" in as_module


@pytest.mark.parametrize(("line", "expected"), [("loopwise ", COMMANDS), ("loopwise pa", {"parser"})])
def test_shells_complete_commands(line: str, expected: set[str]) -> None:
    words = line.split(" ")
    bash = shell_out(_LOOPWISE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)).split()
    assert expected <= set(bash) and all(word.startswith(words[-1]) for word in bash)
    zsh = shell_out(_LOOPWISE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    assert all(f'"{command}"' in zsh for command in expected)
    fish = shell_out(
        _LOOPWISE_COMPLETE="complete_fish", _TYPER_COMPLETE_ARGS=line, _TYPER_COMPLETE_FISH_ACTION="get-args"
    )
    assert {row.split("\t")[0] for row in fish.splitlines()} == set(bash)


def test_options_and_their_values_are_completed() -> None:
    line = "loopwise infer --method "
    found = shell_out(_LOOPWISE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD="3").split()
    assert {"bp", "trw", "exact"} <= set(found)
    nested = shell_out(_LOOPWISE_COMPLETE="complete_bash", COMP_WORDS="loopwise parser tr", COMP_CWORD="2").split()
    assert nested == ["train"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_for_shells(shell: str, tmp_path: Path) -> None:
    script = shell_out(_LOOPWISE_COMPLETE=f"source_{shell}")
    assert "loopwise" in script and f"_LOOPWISE_COMPLETE=complete_{shell}" in script
    program = shutil.which(shell)
    if program is not None:  # the shell itself reads it without complaint
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


def test_bash_itself_completes(tmp_path: Path) -> None:
    """The script in a shell, with a command of that name on the path."""
    program = shutil.which("bash")
    if program is None:
        pytest.skip("there is no bash")
    command = tmp_path / "loopwise"
    command.write_text(f"#!{sys.executable}\nfrom loopwise.cli.main import run\nrun()\n")
    command.chmod(0o755)
    script = shell_out(_LOOPWISE_COMPLETE="source_bash")
    asking = 'COMP_WORDS=(loopwise de); COMP_CWORD=1; _loopwise_completion loopwise; echo "${COMPREPLY[@]}"'
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [program, "-c", f"{script}\n{asking}"], env=environment, check=True, capture_output=True, text=True
    )
    assert set(done.stdout.split()) == {"decode", "dedupe", "demo", "denoise"}
