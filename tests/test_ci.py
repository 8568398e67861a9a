"""What CI and pre-commit run is what people run by hand: targets of the Makefile, for the Pythons that are declared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with pip install 'loopwise[docs]'")

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = {name: needs.split() for name, needs in re.findall(r"^([a-z]+):(.*)$", MAKEFILE, re.MULTILINE)}


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_ci_calls_make() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {re.fullmatch(r"make (\w+) PYTHON=python", command)[1] for command in commands}  # type: ignore[index]
    assert {"lint", "test", "docs", "package"} == called <= set(TARGETS)


def test_ci_has_the_declared_pythons_that_can_be_pinned() -> None:
    matrix = read(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    (pinned,) = re.findall(r"\(Python (3\.\d+)\)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert set(declared[declared.index(pinned) :]) <= set(matrix) and matrix == sorted(set(matrix))


def test_hooks_are_the_parts_of_lint_and_fetch_nothing() -> None:
    (source,) = read(".pre-commit-config.yaml")["repos"]
    assert source["repo"] == "local" and all(hook["language"] == "system" for hook in source["hooks"])
    assert [hook["entry"] for hook in source["hooks"]] == [f"make {part}" for part in TARGETS["lint"]]


def test_issue_templates_are_whole() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= set(form)
            assert all(len({part["type"], part["id"], part["attributes"]["label"]}) == 3 for part in form["body"])


def test_the_citation_is_readable() -> None:
    found = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version"} <= set(found)


def test_decisions_are_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    others = sorted(path.name for path in folder.glob("*.md") if path.name != "index.md")
    assert sorted(re.findall(r"\]\((\w+\.md)\)", index)) == others and len(others) >= 4
