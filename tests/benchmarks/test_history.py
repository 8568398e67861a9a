"""The history of ratios: what is kept can be read, extended, drawn, and is what the page shows."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_history", ROOT / "benchmarks" / "history.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_what_is_kept(script: Any) -> None:
    history = script.read()
    assert script.written(history) == (ROOT / "benchmarks" / "history.json").read_text()
    assert all(ratio > 0 for entry in history["entries"] for ratio in entry["ratios"].values())
    for told in history["ratios"].values():
        assert (ROOT / "benchmarks" / f"{told['script']}.py").exists()
        assert told["key"].split("_")[0] in ("vs",) and told["says"]
    assert "speed-history.svg" in (ROOT / "docs" / "results" / "speed.md").read_text()


def test_entries_are_added_or_completed(script: Any) -> None:
    history = {"ratios": {"grid": {}}, "entries": [{"commit": "a", "date": "2026-01-01", "ratios": {"grid": 2.0}}]}
    longer = script.with_entry(history, "b", "2026-01-02", {"grid": 3.0})
    assert [entry["commit"] for entry in longer["entries"]] == ["a", "b"] and len(history["entries"]) == 1
    same = script.with_entry(longer, "b", "2026-01-03", {"batch": 1.0})
    assert same["entries"][1] == {"commit": "b", "date": "2026-01-02", "ratios": {"grid": 3.0, "batch": 1.0}}


def test_a_ratio_that_is_not_declared_is_refused(script: Any, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    entry = {"commit": "a", "date": "2026-01-01", "ratios": {"grid": 1.0}}
    path.write_text(json.dumps({"ratios": {}, "entries": [entry]}))
    with pytest.raises(SystemExit, match="commit a has the ratio 'grid'"):
        script.read(path)
    with pytest.raises(SystemExit, match="nothing of nonsense is kept"):
        script.measure(script.read(), ["nonsense"], [])


def test_it_is_drawn(script: Any, tmp_path: Path) -> None:
    script.draw(script.read(), tmp_path / "drawn.svg")
    assert "<svg" in (tmp_path / "drawn.svg").read_text()
