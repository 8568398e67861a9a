"""What each table of the SampleRank paper gives to its pages.

In: nothing. Out: :class:`Table`. One module a table makes one; :mod:`loopwise.reproduce.samplerank` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loopwise.reproduce.queue import Tell
from loopwise.reproduce.results import Deadline, Results


class Runner(Protocol):
    """Runs what is left of a table, at most until ``deadline``; how many of how many runs are finished.

    ``runs``: a folder for finished runs, from which an interrupted table goes on. Cells, claims and pictures go to
    ``results``.
    """

    def __call__(
        self, results: Results, deadline: Deadline, tell: Tell, data: Path | None, runs: Path
    ) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Table:
    """A table: how it is run, and what stands around its numbers."""

    number: int
    run: Runner
    steps: Callable[[str, Path | None], int]  # how many runs, by mode and data
    introduction: Callable[[Results], Sequence[str]]
    units: Callable[[str], str]  # what the numbers of an item are
    pictures: Mapping[str, str]  # file: what it shows

    def owns(self, item: str) -> bool:
        """Whether cells of ``item`` are this table's: its name is the table's, or begins with it."""
        return item == self.name or item.startswith((f"{self.name},", f"{self.name}:"))

    @property
    def name(self) -> str:
        return f"Table {self.number}"
