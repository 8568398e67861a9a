"""Counts that grow chunk by chunk, kept in one file, so that a study goes on where it stopped.

In: cells, each with a function that counts over one chunk of shots. Out: sums of counts, by cell.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

from loopwise.formats.files import atomic_write

Chunk = Callable[[int], dict[str, float]]


class Ledger:
    """Counts by cell, written after every chunk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}

    def add(self, name: str, found: dict[str, float]) -> None:
        mine = self.counts.setdefault(name, {"chunks": 0.0})
        mine["chunks"] += 1
        for key, value in found.items():
            mine[key] = mine.get(key, 0.0) + value
        with atomic_write(self.path) as stream:
            stream.write(json.dumps(self.counts, indent=1))


def work(ledger: Ledger, cells: dict[str, tuple[Chunk, int]], until: float) -> bool:
    """Chunks in turns until each cell has as many as it asks for, or time is up; whether all is done."""
    while True:
        open_cells = [
            name for name, (_, wanted) in cells.items() if ledger.counts.get(name, {}).get("chunks", 0) < wanted
        ]
        if not open_cells:
            return True
        for name in open_cells:
            if time.monotonic() > until:
                return False
            begin = time.monotonic()
            done = int(ledger.counts.get(name, {}).get("chunks", 0))
            ledger.add(name, cells[name][0](done))
            print(f"{name}: chunk {done + 1} of {cells[name][1]}, {time.monotonic() - begin:.1f} s", flush=True)


def rate_error(errors: float, shots: float) -> float:
    """The standard error of a rate."""
    rate = errors / shots
    return math.sqrt(max(rate * (1 - rate), 1 / shots) / shots)
