"""What the two dials share: settings, how they are timed, and their table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from common import markdown_table


@dataclass(frozen=True)
class Setting:
    """One position of the dial: how to answer everything once, and how wrong the answers are."""

    curve: str
    name: str
    run: Callable[[], object]
    error: float  # per cent
    notes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A setting and how fast it was."""

    curve: str
    name: str
    rate: float  # sentences or images a second
    error: float
    notes: dict[str, float]


@dataclass(frozen=True)
class Dial:
    """All settings of one system: ``count`` examples are answered by each run, on one thread."""

    title: str
    unit: str
    error: str
    count: int
    settings: Sequence[Setting]
    about: dict[str, Any]

    def timed(self, repeats: int) -> list[Row]:
        """Medians of ``repeats`` rounds in which all settings take turns, after one that does not count.

        Seconds are those of the processor, which on an idle core are those of the clock: other work does not matter.
        """
        seconds: list[list[float]] = [[] for _ in self.settings]
        for _ in range(repeats + 1):
            for setting, mine in zip(self.settings, seconds, strict=True):
                begin = time.process_time()
                setting.run()
                mine.append(time.process_time() - begin)
        return [
            Row(setting.curve, setting.name, self.count / statistics.median(mine[1:]), setting.error, setting.notes)
            for setting, mine in zip(self.settings, seconds, strict=True)
        ]

    def table(self, rows: Sequence[Row]) -> str:
        """As Markdown; the first row is 1."""
        return markdown_table(
            ["what is turned", "setting", f"{self.unit} a second", "times the first", self.error],
            [[r.curve, r.name, f"{r.rate:.1f}", f"{r.rate / rows[0].rate:.2f}", f"{r.error:.2f}"] for r in rows],
            text_columns=2,
        )
