"""Which cells are missing, drawn anew each epoch: so that training meets the missing cells that use will meet.

In: rows as integers. Out: a mask of cells to take away. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers

Mask = NDArray[np.bool_]


class Missingness(Protocol):
    """A way in which cells go missing."""

    def draw(self, rows: int, columns: int, generator: np.random.Generator) -> Mask:
        """Cells to take away, ``[rows, columns]``."""
        ...


@dataclass(frozen=True)
class AnyRate:
    """Every row has a rate of its own: 0 for a share ``whole`` of the rows, else anything up to ``most``."""

    most: float = 0.9
    whole: float = 0.25

    def draw(self, rows: int, columns: int, generator: np.random.Generator) -> Mask:
        rate = np.where(generator.random(rows) < self.whole, 0.0, self.most * generator.random(rows))
        mask: Mask = generator.random((rows, columns)) < rate[:, None]
        return mask


@dataclass(frozen=True)
class Rates:
    """Cells go missing at a given rate, one for all columns or one for each."""

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        for rate in self.rates:
            if not 0 <= rate < 1:
                raise ValueError(f"a rate of missing cells must be at least 0 and below 1, not {rate}")

    def draw(self, rows: int, columns: int, generator: np.random.Generator) -> Mask:
        if len(self.rates) not in (1, columns):
            raise ValueError(
                f"{len(self.rates)} rates of missing cells were given for {columns} columns; give one, or one each"
            )
        mask: Mask = generator.random((rows, columns)) < np.array(self.rates)
        return mask


@dataclass(frozen=True, eq=False)
class Patterns:
    """Rows miss what some row of another table misses."""

    masks: Mask

    @staticmethod
    def of(values: Integers) -> Patterns:
        """The patterns of rows, -1 where a value is missing."""
        return Patterns(np.asarray(values) == FREE)

    def draw(self, rows: int, columns: int, generator: np.random.Generator) -> Mask:
        mask: Mask = self.masks[generator.integers(len(self.masks), size=rows)]
        return mask


def missingness_of(given: Any) -> Missingness:
    """What a user says of missing cells: None (any rate), a rate, a sequence of rates, or a rule.

    >>> missingness_of(0.3)
    Rates(rates=(0.3,))
    """
    if given is None:
        return AnyRate()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Rates((float(given),))
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return Rates(tuple(float(rate) for rate in given))
    if hasattr(given, "draw"):
        rule: Missingness = given
        return rule
    raise ValueError(f"missing must be None, a rate, a rate for each column or a rule of drawing cells, not {given!r}")
