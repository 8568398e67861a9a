"""``results.json``: what the demo and every study write, published figures beside ours, and which claims hold.

In: cells and claims. Out: one JSON file of the schema

``{"paper", "mode", "seed", "cells": [{"item", "row", "column", "published", "ours", "stderr", "n", ...}],
"claims": [{"id", "text", "holds", "evidence", "rule" where one is written down}], "seconds"}``

written whole or not at all. An *item* is one table or figure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loopwise.formats import atomic_write

FILE = "results.json"
CELL_FIELDS = ("item", "row", "column", "published", "ours", "stderr", "n")


@dataclass(frozen=True)
class Cell:
    """One number of a table or one point of a figure. ``more`` is what only this paper has."""

    item: str
    row: str
    column: str
    ours: float | None
    stderr: float | None = None
    n: int = 1
    published: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.item, self.row, self.column


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and whether it held here; ``holds`` None: not enough was run to say.

    ``rule``: what decides it (which numbers, which test, which margin), fixed before there were numbers.
    """

    id: str
    text: str
    holds: bool | None
    evidence: str
    rule: str = ""


def write_results(
    folder: Path, facts: Mapping[str, Any], cells: Iterable[Cell], claims: Iterable[Claim], seconds: float
) -> None:
    """Writes the file. ``facts``: paper, mode, seed, and whatever else is known of the run."""
    report = {
        **facts,
        "cells": [_cell_json(cell) for cell in cells],
        "claims": [_claim_json(claim) for claim in claims],
        "seconds": round(seconds, 1),
    }
    with atomic_write(folder / FILE) as stream:
        json.dump(_without_nan(report), stream, indent=1, allow_nan=False)
        stream.write("\n")


def results_of(folder: Path, paper: str) -> dict[str, Any] | None:
    """The results that ``folder`` holds, None if it holds none; ValueError if they are not those of ``paper``."""
    path = folder / FILE
    if not path.exists():
        return None
    stored = read_results(path)
    if stored["paper"] != paper:
        raise ValueError(f"{path} holds results of {stored['paper']!r}, not {paper!r}; choose another folder")
    return stored


def read_results(path: Path) -> dict[str, Any]:
    """The fields of a results file; ValueError if it is none."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not {"paper", "mode", "seed", "cells", "claims", "seconds"} <= set(stored):
            raise KeyError
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no results file of this program; choose another folder") from None
    fields: dict[str, Any] = stored
    return fields


def _claim_json(claim: Claim) -> dict[str, Any]:
    return {name: value for name, value in asdict(claim).items() if name != "rule" or value}


def _cell_json(cell: Cell) -> dict[str, Any]:
    clash = set(cell.more) & set(CELL_FIELDS)
    if clash:
        raise ValueError(f"a cell of {cell.item!r} gives {sorted(clash)} twice")
    return {**{name: getattr(cell, name) for name in CELL_FIELDS}, **cell.more}


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for both."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    return [_without_nan(part) for part in value] if isinstance(value, (list, tuple)) else value
