"""The results of one paper in one folder, saved as they come, so that a long run can be stopped and continued.

In: cells and claims as they are finished. Out: ``results.json`` (:mod:`loopwise.demo.results` has the schema). An
*item* is one table or figure of the paper: running one replaces its cells and leaves those of the others alone.
``notes`` are sentences about the run that its page prints and nothing else tells, such as the hours it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from loopwise.demo.results import CELL_FIELDS, FILE, Cell, Claim, results_of, write_results

__all__ = ["FILE", "FULL", "QUICK", "Cell", "Claim", "Deadline", "Results"]

QUICK, FULL = "quick", "full"


class Results:
    """The results of one paper in one folder."""

    def __init__(self, folder: Path, paper: str, mode: str, seed: int) -> None:
        self.folder, self.paper, self.mode, self.seed = folder, paper, mode, seed
        self.seconds = 0.0
        self.notes: tuple[str, ...] = ()
        self._cells: dict[tuple[str, str, str], Cell] = {}
        self._claims: dict[str, Claim] = {}
        self._since = time.monotonic()

    @staticmethod
    def open(folder: Path, paper: str, mode: str, seed: int) -> Results:
        """Continues the results of ``folder`` if they are of the same paper, mode and seed, else begins anew.

        A full run, which took hours, is never replaced by another: that is an error.
        """
        results = Results(folder, paper, mode, seed)
        stored = results_of(folder, paper)
        if stored is None:
            folder.mkdir(parents=True, exist_ok=True)
        elif (stored["mode"], stored["seed"]) == (mode, seed):
            results._take(stored)
        elif stored["mode"] == FULL:
            raise ValueError(
                f"{folder} holds a full run with seed {stored['seed']}, which a {mode} one with seed {seed} would "
                "replace; choose another folder"
            )
        return results

    @staticmethod
    def of_folder(folder: Path, paper: str) -> Results:
        """The results that ``folder`` holds, whatever their mode and seed."""
        stored = results_of(folder, paper)
        if stored is None:
            raise ValueError(f"{folder} holds no {FILE}; give the folder of a study's results")
        results = Results(folder, paper, stored["mode"], stored["seed"])
        results._take(stored)
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

    def put_items(self, items: Iterable[str], cells: Iterable[Cell]) -> None:
        """The cells of whole tables and figures, in place of all that there were of these; saves."""
        old = set(items)
        self._cells = {key: cell for key, cell in self._cells.items() if cell.item not in old}
        self._cells.update({cell.key: cell for cell in cells})
        self.save()

    def claim(self, *claims: Claim, instead_of: Iterable[str] = ()) -> None:
        """Adds claims, or replaces those with the same id, and saves. ``instead_of``: ids of older claims whose place
        these take."""
        for old in instead_of:
            self._claims.pop(old, None)
        self._claims.update({claim.id: claim for claim in claims})
        self.save()

    def note(self, *notes: str) -> None:
        """Replaces the notes, and saves."""
        self.notes = notes
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
        facts: dict[str, Any] = {"paper": self.paper, "mode": self.mode, "seed": self.seed}
        if self.notes:
            facts["notes"] = self.notes
        write_results(self.folder, facts, self.cells, self.claims, self.seconds)

    def _take(self, stored: dict[str, Any]) -> None:
        self.seconds = float(stored["seconds"])
        self.notes = tuple(stored.get("notes", ()))
        for entry in stored["cells"]:
            known = {name: entry[name] for name in CELL_FIELDS}
            cell = Cell(**known, more={name: entry[name] for name in entry if name not in CELL_FIELDS})
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
