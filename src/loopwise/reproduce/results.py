"""``results.json``: what every reproduction writes, published figures beside ours, and which claims hold.

In: cells and claims as they are finished. Out: one JSON file of the schema

``{"paper", "mode", "seed", "cells": [{"item", "row", "column", "published", "ours", "stderr", "n", ...}],
"claims": [{"id", "text", "holds", "evidence"}], "seconds"}``

in which every finished cell is saved at once, so that a long run can be stopped and continued. An *item* is one table
or figure of the paper: running one replaces its cells and leaves those of the others alone.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loopwise.formats import atomic_write

FILE = "results.json"
QUICK, FULL = "quick", "full"
_CELL_FIELDS = ("item", "row", "column", "published", "ours", "stderr", "n")


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
    """A sentence of the paper, and whether it held here; ``holds`` None: not enough was run to say."""

    id: str
    text: str
    holds: bool | None
    evidence: str


class Results:
    """The results of one paper in one folder."""

    def __init__(self, folder: Path, paper: str, mode: str, seed: int) -> None:
        self.folder, self.paper, self.mode, self.seed = folder, paper, mode, seed
        self.seconds = 0.0
        self._cells: dict[tuple[str, str, str], Cell] = {}
        self._claims: dict[str, Claim] = {}
        self._since = time.monotonic()

    @staticmethod
    def open(folder: Path, paper: str, mode: str, seed: int) -> Results:
        """Continues the results of ``folder`` if they are of the same paper, mode and seed, else begins anew.

        A full run, which took hours, is never replaced by another: that is an error.
        """
        results = Results(folder, paper, mode, seed)
        path = folder / FILE
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            return results
        stored = _read(path)
        if stored["paper"] != paper:
            raise ValueError(f"{path} holds results of {stored['paper']!r}, not {paper!r}; choose another folder")
        if (stored["mode"], stored["seed"]) == (mode, seed):
            results._take(stored)
        elif stored["mode"] == FULL:
            raise ValueError(
                f"{path} holds a full run with seed {stored['seed']}, which a {mode} one with seed {seed} would "
                "replace; choose another folder"
            )
        return results

    @property
    def cells(self) -> list[Cell]:
        return list(self._cells.values())

    @property
    def claims(self) -> list[Claim]:
        return list(self._claims.values())

    def items(self) -> list[str]:
        """The tables and figures there are cells of, in order."""
        return list(dict.fromkeys(cell.item for cell in self.cells))

    def of_item(self, item: str) -> Iterator[Cell]:
        return (cell for cell in self.cells if cell.item == item)

    def find(self, item: str, row: str, column: str) -> Cell | None:
        """The cell, if it is finished."""
        return self._cells.get((item, row, column))

    def put(self, cell: Cell) -> None:
        """Adds a cell, or replaces the one at its place, and saves."""
        self._cells[cell.key] = cell
        self.save()

    def clear(self, item: str) -> None:
        """Forgets the cells of one table or figure (in memory; the file keeps them until the next save)."""
        self._cells = {key: cell for key, cell in self._cells.items() if cell.item != item}

    def claim(self, *claims: Claim) -> None:
        """Adds claims, or replaces those with the same id, and saves."""
        self._claims.update({claim.id: claim for claim in claims})
        self.save()

    def arrange(self, item_place: Callable[[str], int], claim_place: Callable[[str], int]) -> None:
        """Puts cells and claims in order, by the places of items and of the claims' ids, and saves."""
        self._cells = dict(sorted(self._cells.items(), key=lambda pair: item_place(pair[1].item)))
        self._claims = dict(sorted(self._claims.items(), key=lambda pair: claim_place(pair[0])))
        self.save()

    def save(self) -> None:
        """Writes the file whole or not at all."""
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now
        report = {
            "paper": self.paper,
            "mode": self.mode,
            "seed": self.seed,
            "cells": [_cell_json(cell) for cell in self.cells],
            "claims": [asdict(claim) for claim in self.claims],
            "seconds": round(self.seconds, 1),
        }
        with atomic_write(self.folder / FILE) as stream:
            json.dump(_without_nan(report), stream, indent=1, allow_nan=False)
            stream.write("\n")

    def _take(self, stored: dict[str, Any]) -> None:
        self.seconds = float(stored["seconds"])
        for entry in stored["cells"]:
            known = {name: entry[name] for name in _CELL_FIELDS}
            cell = Cell(**known, more={name: entry[name] for name in entry if name not in _CELL_FIELDS})
            self._cells[cell.key] = cell
        self._claims = {entry["id"]: Claim(**entry) for entry in stored["claims"]}


class Deadline:
    """When to stop beginning new cells; never, if ``minutes`` is None."""

    def __init__(self, minutes: float | None) -> None:
        if minutes is not None and not minutes > 0:
            raise ValueError(f"minutes must be positive, not {minutes}")
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not {"paper", "mode", "seed", "cells", "claims", "seconds"} <= set(stored):
            raise KeyError
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no results file of this program; choose another folder") from None
    fields: dict[str, Any] = stored
    return fields


def _cell_json(cell: Cell) -> dict[str, Any]:
    clash = set(cell.more) & set(_CELL_FIELDS)
    if clash:
        raise ValueError(f"a cell of {cell.item!r} gives {sorted(clash)} twice")
    return {**{name: getattr(cell, name) for name in _CELL_FIELDS}, **cell.more}


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for both."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    return [_without_nan(part) for part in value] if isinstance(value, (list, tuple)) else value
