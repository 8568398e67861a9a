"""``python -m studies.entities``: entity resolution with equal labels, loopwise beside dedupe and splink.

In: the data collection, and peers where they are installed. Out: a table on standard output, ``results.json``.

Labels: none; 20, 100, 500 pairs drawn the same way for all (spread over the cosine of their words), resolved on the
whole table; all ids of half of the entities, resolved on the other half. dedupe needs pairs: of ids it gets 1000 drawn
so from the training half. Splink is run without labels. A tool that fails or is not installed has its reason in place
of figures.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.apps.dedupe import Report
from loopwise.formats.files import atomic_write
from studies.entities.data import PROBLEMS, Problem, labelled_pairs
from studies.entities.tools import TOOLS, Labels

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "dedupe"
SETTINGS = ("none", "20", "100", "500", "ids")
SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="made-up records, loopwise alone")
    parser.add_argument("--problems", default="febrl1,febrl3,cora,patstat,chicago,abt-buy")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--out", type=Path, default=None, help="results.json")
    told = parser.parse_args()
    problems = ["made"] if told.quick else told.problems.split(",")
    tools = ["loopwise"] if told.quick else told.tools.split(",")
    cells: list[dict[str, Any]] = []
    started = time.perf_counter()
    print(f"{'problem':9} {'labels':6} {'tool':9}  pair P  pair R pair F1 B-cubed cluster       s")
    for name in problems:
        try:
            problem = PROBLEMS[name](told.data)
        except (ImportError, OSError) as reason:
            print(f"{name:9} left out: {reason}")
            continue
        for setting in told.settings.split(","):
            for tool in tools:
                cell = measure(problem, setting, tool)
                if cell is not None:
                    cells.append(cell)
                    print(line(cell), flush=True)
                    write(told.out, cells, told.quick, started)
    print(json.dumps({"study": "entities", "cells": len(cells), "seconds": round(time.perf_counter() - started, 1)}))


def measure(problem: Problem, setting: str, tool: str) -> dict[str, Any] | None:
    """One cell, or None where the tool has no such setting."""
    if (tool == "splink" and (setting != "none" or problem.side is not None)) or (
        tool == "dedupe" and setting == "none"
    ):
        return None
    train, test = problem, problem
    labels = Labels()
    if setting == "ids":
        half = np.random.default_rng(SEED).permutation(problem.truth.max() + 1) % 2 == 0
        train, test = (problem.part(np.flatnonzero(half[problem.truth] == side)) for side in (True, False))
    if setting.isdigit() or (setting == "ids" and tool == "dedupe"):
        pairs = labelled_pairs(train, int(setting) if setting.isdigit() else 1000, SEED)
        labels = Labels(pairs, train.truth[pairs[:, 0]] == train.truth[pairs[:, 1]])
    elif setting == "ids":
        labels = Labels(ids=True)
    base = {"problem": problem.name, "labels": setting, "tool": tool}
    started = time.perf_counter()
    try:
        found = TOOLS[tool](train, labels, test)
    except Exception as reason:  # a peer's failure is a result too
        return {**base, "failed": f"{type(reason).__name__}: {reason}"[:200]}
    report = Report.of(found, test.truth, test.side)
    matches = None if labels.match is None else int(labels.match.sum())
    return {**base, **report.to_json(), "matches": matches, "seconds": round(time.perf_counter() - started, 1)}


def line(cell: dict[str, Any]) -> str:
    head = f"{cell['problem']:9} {cell['labels']:6} {cell['tool']:9}"
    if "failed" in cell:
        return f"{head} {cell['failed']}"
    numbers = " ".join(f"{cell[name]:7.3f}" for name in ("precision", "recall", "pairwise_f1", "b_cubed", "cluster_f1"))
    return f"{head} {numbers} {cell['seconds']:7.1f}"


def write(path: Path | None, cells: list[dict[str, Any]], quick: bool, started: float) -> None:
    if path is not None:
        told = {"study": "entities", "mode": "quick" if quick else "full", "seed": SEED, "cells": cells}
        with atomic_write(path) as out:
            out.write(json.dumps({**told, "seconds": round(time.perf_counter() - started, 1)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
