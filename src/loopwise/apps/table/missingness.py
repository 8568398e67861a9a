"""Which cells are missing, drawn anew each epoch: so that training meets the missing cells that use will meet.

In: rows as integers. Out: a mask of cells to take away. Stage: use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.table.reading import missing_cells, table_of
from loopwise.formats.coding import is_number, is_truth
from loopwise.formats.errors import listed, quoted
from loopwise.formats.vocabulary import known_names
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.notices import DataWarning, warn

Mask = NDArray[np.bool_]


class Missingness(Protocol):
    """A way in which cells go missing."""

    def draw(self, rows: int, columns: int, generator: np.random.Generator) -> Mask:
        """Cells to take away, ``[rows, columns]``."""
        ...


def warn_of_unmet(names: Sequence[str], inputs: Integers, met: Mask) -> None:
    """Warns where rows ``[rows, columns]`` miss a column that training never saw missing (``met`` False)."""
    new = np.flatnonzero((inputs == FREE).any(axis=0) & ~met)
    if len(new):
        warn(
            f"rows miss {listed([names[place] for place in new.tolist()])}, which training never missed, so that "
            "answers may be poor; train for any share of missing cells, or with a rate for these columns",
            DataWarning,
        )


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
    """Rows miss what some row of another table misses: ``masks`` ``[rows, columns]`` says which cells.

    >>> Patterns.like([["a", None], ["b", 3.0]]).masks.tolist()
    [[False, True], [False, False]]
    """

    masks: Mask

    def __post_init__(self) -> None:
        masks = np.asarray(self.masks)
        if masks.ndim != 2 or not len(masks) or masks.dtype != np.bool_:
            raise ValueError(
                f"patterns are truth values [rows, columns] of at least one row, not {masks.dtype} of shape "
                f"{masks.shape}; Patterns.like(table) makes them"
            )
        object.__setattr__(self, "masks", masks)

    @staticmethod
    def like(table: Any) -> Patterns:
        """The patterns of a table as users have it, whose columns are the input columns of the training data."""
        return Patterns(missing_cells(table_of(table)))

    @staticmethod
    def of(values: Integers) -> Patterns:
        """The patterns of rows of integers, -1 where a value is missing."""
        return Patterns(np.asarray(values) == FREE)

    def draw(self, rows: int, columns: int, generator: np.random.Generator) -> Mask:
        if self.masks.shape[1] != columns:
            raise ValueError(
                f"patterns of {self.masks.shape[1]} columns were given for {columns} input columns; give one for each"
            )
        mask: Mask = self.masks[generator.integers(len(self.masks), size=rows)]
        return mask


def missingness_of(given: Any, columns: Sequence[str] = ()) -> Missingness:
    """What a user says of missing cells: None (any rate), a rate, rates of all ``columns`` in order or of some by
    name (the others are never missing), or a rule.

    >>> missingness_of(0.3), missingness_of({"age": 0.5}, ["age", "sex"])
    (Rates(rates=(0.3,)), Rates(rates=(0.5, 0.0)))
    """
    if given is None:
        return AnyRate()
    if hasattr(given, "draw"):
        rule: Missingness = given
        return rule
    if isinstance(given, Mapping):
        for name in given:
            if name not in columns:
                known = known_names("input columns", columns, str(name))
                raise ValueError(f"no input column is called {quoted(str(name))}; {known}")
        return Rates(tuple(_rate(given.get(name, 0.0)) for name in columns))
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return Rates(tuple(_rate(rate) for rate in given))
    return Rates((_rate(given),))


def _rate(given: Any) -> float:
    if not is_number(given) or is_truth(given):
        raise ValueError(
            f"missing must be None, a rate, a rate for each column or a rule of drawing cells, not {given!r}"
        )
    return float(given)
