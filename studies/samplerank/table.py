"""What each table of the SampleRank paper gives to its pages.

In: nothing. Out: :class:`PaperTable`. One folder a table makes one; :mod:`studies.samplerank.run` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from studies.harness.results import Results
from studies.harness.study import Runner, StudyOrder


@dataclass(frozen=True)
class PaperTable:
    """A table: how it is run, and what stands around its numbers."""

    number: int
    run: Runner
    steps: Callable[[StudyOrder], int]  # how many runs
    introduction: Callable[[Results], Sequence[str]]
    units: Callable[[str], str]  # what the numbers of an item are
    pictures: Mapping[str, str]  # file: what it shows

    def owns(self, item: str) -> bool:
        """Whether cells of ``item`` are this table's: its name is the table's, or begins with it."""
        return item == self.name or item.startswith((f"{self.name},", f"{self.name}:"))

    @property
    def name(self) -> str:
        return f"Table {self.number}"
