"""Columns of a table as variables with few values: numbers are cut into intervals, text has a value for each label.

In: an array, a data frame or lists, of numbers or text. Out: :class:`Columns`, which turns rows into integers, -1 where
a value is missing (NaN, None, empty text). Stage: use.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.multilabel.arrays import as_inputs
from loopwise.apps.multilabel.scaling import is_sparse
from loopwise.formats.quoting import quoted
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers

Floats = NDArray[np.float64]

LABELS = 1000  # of a text column at most: pairs of such columns would have a million weights each


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers: value ``v`` is the numbers from ``cuts[v - 1]`` on, below ``cuts[v]``.

    A column of few distinct numbers has one value for each, and is cut in the middle between them, so that a number
    that training never saw counts as the nearest.
    """

    cuts: Floats
    labels: tuple[str, ...]

    @staticmethod
    def of(column: Floats, bins: int) -> Numbers:
        """At most ``bins`` values, with about equally many rows each."""
        known = np.unique(column[~np.isnan(column)])
        if len(known) <= bins:
            cuts = known[:-1] + np.diff(known) / 2
            return Numbers(cuts, tuple(as_text(number) for number in known.tolist()) or ("missing",))
        shares = np.arange(1, bins) / bins
        cuts = np.unique(np.nanquantile(column, shares))
        cuts = cuts[cuts > known[0]]  # nothing lies below the least
        ends = ["-inf", *map(as_text, cuts.tolist()), "inf"]
        return Numbers(cuts, tuple(f"[{low}, {high})" for low, high in itertools.pairwise(ends)))

    def codes(self, column: Floats) -> Integers:
        found = np.searchsorted(self.cuts, np.nan_to_num(column), side="right")
        return np.where(np.isnan(column), FREE, found)


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: a value for each label of the training data; another label counts as missing."""

    labels: tuple[str, ...]

    @staticmethod
    def of(name: str, column: Sequence[str | None]) -> Texts:
        labels = sorted({cell for cell in column if cell is not None})
        if len(labels) > LABELS:
            raise ValueError(
                f"column {quoted(name)} has {len(labels)} different labels, more than {LABELS}; leave the column out, "
                "or put labels together"
            )
        return Texts(tuple(labels) or ("missing",))

    def codes(self, column: Sequence[str | None]) -> Integers:
        place: dict[str | None, int] = {label: number for number, label in enumerate(self.labels)}
        return np.array([place.get(cell, FREE) for cell in column], dtype=np.int64)


Column = Numbers | Texts


@dataclass(frozen=True, eq=False)
class Columns:
    """The input columns, in order."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]

    @staticmethod
    def of(table: NDArray[Any], names: Sequence[str], bins: int) -> Columns:
        """What the columns of a checked table (:func:`as_table`) look like."""
        if not 2 <= bins <= LABELS:
            raise ValueError(f"bins must be a number from 2 to {LABELS}, not {bins}")
        found = []
        for place, name in enumerate(names):
            numbers = _as_numbers(table[:, place])
            made: Column = Texts.of(name, _as_texts(table[:, place])) if numbers is None else Numbers.of(numbers, bins)
            found.append(made)
        return Columns(tuple(names), tuple(found))

    def codes(self, table: NDArray[Any]) -> Integers:
        """``[rows, columns]``, :data:`~loopwise.FREE` where a value is missing."""
        return np.stack([self._codes(place, table[:, place]) for place in range(len(self.columns))], axis=1)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """What the values of each column are called."""
        return tuple(column.labels for column in self.columns)

    def _codes(self, place: int, cells: NDArray[Any]) -> Integers:
        column = self.columns[place]
        if isinstance(column, Texts):
            return column.codes(_as_texts(cells))
        numbers = _as_numbers(cells)
        if numbers is None:
            text = next(cell for cell in cells.tolist() if not is_missing(cell) and not _is_number(cell))
            raise ValueError(
                f"column {quoted(self.names[place])} holds {quoted(text)}, in training it held numbers; give NaN "
                "if it is missing"
            )
        return column.codes(numbers)


def as_table(given: Any) -> NDArray[Any]:
    """A table ``[rows, columns]``: float64 where all cells are numbers, else of objects."""
    if is_sparse(given):
        raise TypeError("Sparse data was passed, but a table of columns must be dense: call X.toarray()")
    array = np.asarray(given)
    if array.dtype.kind in "biufc":
        dense: NDArray[Any] = as_inputs(array)
        return dense
    cells = np.array(given, dtype=object) if array.dtype.kind in "US" else array.astype(object)
    as_inputs(np.zeros(cells.shape))  # its checks of the shape
    return cells


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing: None, NaN (also those of pandas), empty text."""
    if cell is None or isinstance(cell, str):
        return not cell
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    return type(cell).__name__ in ("NAType", "NaTType")


def _is_number(cell: Any) -> bool:
    return isinstance(cell, bool | int | float | np.bool_ | np.number)


def _as_numbers(cells: NDArray[Any]) -> Floats | None:
    """The cells as numbers; None if some is neither a number nor missing."""
    if cells.dtype.kind != "O":
        return cells.astype(np.float64)
    listed = cells.tolist()
    if not all(_is_number(cell) or is_missing(cell) for cell in listed):
        return None
    found = np.array([np.nan if is_missing(cell) else float(cell) for cell in listed])
    if np.isinf(found).any():
        raise ValueError("Input X contains infinity; give finite numbers, or NaN where a value is missing")
    return found


def _as_texts(cells: NDArray[Any]) -> list[str | None]:
    return [None if is_missing(cell) else as_text(cell) for cell in cells.tolist()]


def as_text(cell: Any) -> str:
    """A cell as a table in a file would have it: whole numbers without a decimal point."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell)
