"""Columns of a table as variables with few values: numbers are cut into intervals, text has a value for each label.

In: the cells of a column. Out: a :class:`Numbers` or :class:`Texts`, which turn cells into integers, -1 where a value
is missing (NaN, None, empty text); and :func:`codes_of`, which does the same by the labels alone that a vocabulary
keeps. One place for the estimator, the command line and data frames, so that they read a table alike.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import quoted
from loopwise.formats.numbers import number_in

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MISSING = -1
BINS = 8  # intervals of a column of numbers, unless others are asked for
LABELS = 1000  # values of a variable at most: pairs of such columns would have a million weights each
POOLED = 100  # labels of a text column that are kept apart; the rarest of more are pooled
OTHER = "(other)"  # the label of the pool
_INTERVAL = re.compile(r"\[(\S+), (\S+)\)")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers: value ``v`` is the numbers from ``cuts[v - 1]`` on, below ``cuts[v]``.

    A column of few distinct numbers has one value for each, and is cut in the middle between them, so that a number
    that training never saw counts as the nearest.
    """

    cuts: Floats
    labels: tuple[str, ...]
    cut: bool = False  # whether values are intervals
    kind: ClassVar[str] = "numbers"

    @classmethod
    def of(cls, column: Floats, bins: int) -> Self:
        """At most ``bins`` values, with about equally many rows each.

        >>> Numbers.of(np.array([1.0, 2.0, 4.0]), bins=3).labels, Numbers.of(np.arange(100.0), bins=2).labels
        (('1', '2', '4'), ('[-inf, 49.5)', '[49.5, inf)'))
        """
        known = np.unique(column[~np.isnan(column)])
        if len(known) <= bins:
            return cls(_middles(known), tuple(cls.text(number) for number in known.tolist()) or ("missing",))
        shares = np.arange(1, bins) / bins
        cuts = np.unique(np.nanquantile(column, shares))
        cuts = cuts[cuts > known[0]]  # nothing lies below the least
        ends = ["-inf", *map(cls.text, cuts.tolist()), "inf"]
        return cls(cuts, tuple(f"[{low}, {high})" for low, high in itertools.pairwise(ends)), True)

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> Self | None:
        """The column whose labels these are; None if they are not those of a column of numbers.

        >>> Numbers.of_labels(("[-inf, 49.5)", "[49.5, inf)")).codes(np.array([3.0, 80.0, np.nan])).tolist()
        [0, 1, -1]
        """
        ends = [_INTERVAL.fullmatch(label) for label in labels]
        if labels and all(ends):
            pairs = [(cls.read(match[1]), cls.read(match[2])) for match in ends if match]
            cuts = [low for low, _ in pairs[1:]]
            if None in cuts or [high for _, high in pairs[:-1]] != cuts:
                return None
            found = np.array(cuts, dtype=np.float64)
        else:
            numbers = [cls.read(label) for label in labels]
            if not labels or None in numbers:
                return None
            found = _middles(np.array(numbers, dtype=np.float64))
        return cls(found, tuple(labels), bool(all(ends))) if (np.diff(found) > 0).all() else None

    @staticmethod
    def text(number: float) -> str:
        """How labels write a number."""
        return as_text(number)

    @staticmethod
    def read(text: str) -> float | None:
        """The number that a text is, if it is one."""
        return number_in(text)

    @staticmethod
    def numbers(cells: Sequence[Any]) -> Floats | None:
        """Cells as numbers, NaN where they are missing; None if some is neither."""
        return as_numbers(cells)

    @staticmethod
    def cell(number: float) -> Any:
        """A cell that holds a number."""
        return int(number) if number.is_integer() and abs(number) < 1e15 else number

    def codes(self, column: Floats) -> Integers:
        found = np.searchsorted(self.cuts, np.nan_to_num(column), side="right")
        return np.where(np.isnan(column), MISSING, found)


@dataclass(frozen=True, eq=False)
class Dates(Numbers):
    """A column of dates or times, as numbers of days; labels and cells are ISO dates.

    >>> days = Dates.numbers(["2024-03-01", None, "2024-03-02 12:00"])
    >>> Dates.of(days, bins=8).labels
    ('2024-03-01', '2024-03-02T12:00:00')
    """

    kind: ClassVar[str] = "dates"

    @staticmethod
    def text(number: float) -> str:
        day = datetime.min + timedelta(days=number - 1)
        return day.date().isoformat() if number == int(number) else day.isoformat(timespec="seconds")

    @staticmethod
    def read(text: str) -> float | None:
        number = number_in(text)
        return number if number is not None and np.isinf(number) else day_of(text)

    @staticmethod
    def numbers(cells: Sequence[Any]) -> Floats | None:
        found = [np.nan if is_missing(cell) else day_of(cell) for cell in cells]
        return None if None in found else np.array(found, dtype=np.float64)

    @staticmethod
    def cell(number: float) -> Any:
        return Dates.text(number)

    @staticmethod
    def like(other: Any, text: str) -> Any:
        """The date of an ISO text in the type of another date.

        >>> Dates.like(date(2024, 1, 1), "2024-03-02T12:00:00")
        datetime.date(2024, 3, 2)
        """
        if isinstance(other, np.datetime64):
            return np.datetime64(text).astype(other.dtype)
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=other.tzinfo) if isinstance(other, datetime) else found.date()


@dataclass(frozen=True, eq=False)
class Truths(Numbers):
    """A column of truth values, as numbers 0 and 1; a number of another column may stand for them, or a text.

    >>> Truths.of(Truths.numbers([True, None, False]), bins=8).labels, Truths.numbers(["true", 0]).tolist()
    (('False', 'True'), [1.0, 0.0])
    """

    kind: ClassVar[str] = "truth values"

    @staticmethod
    def text(number: float) -> str:
        return str(bool(number))

    @staticmethod
    def read(text: str) -> float | None:
        return {"false": 0.0, "true": 1.0, "0": 0.0, "1": 1.0}.get(text.lower())

    @staticmethod
    def numbers(cells: Sequence[Any]) -> Floats | None:
        read = [Truths.read(cell) if isinstance(cell, str) and cell else cell for cell in cells]
        if any(new is None is not old for new, old in zip(read, cells, strict=True)):
            return None
        return as_numbers(read)

    @staticmethod
    def cell(number: float) -> Any:
        return bool(number)


KINDS: dict[str, type[Numbers]] = {kind.kind: kind for kind in (Numbers, Dates, Truths)}  # as files call them


def day_of(cell: Any) -> float | None:
    """The number of days of a date or time (of Python, NumPy or pandas, or as ISO text), None if it is none.

    >>> day_of("0001-01-02"), day_of("soon"), day_of(3)
    (2.0, None, None)
    """
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, str):
        if not _ISO_DATE.fullmatch(cell):
            return None
        try:
            cell = datetime.fromisoformat(cell)
        except ValueError:
            return None
    if isinstance(cell, datetime):
        return cell.toordinal() + (cell.hour * 3600 + cell.minute * 60 + cell.second) / 86400
    return float(cell.toordinal()) if isinstance(cell, date) else None


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: a value for each label of the training data; another label is the pool's, where there is one,
    else it counts as missing."""

    labels: tuple[str, ...]
    kind: ClassVar[str] = "labels"
    cut: ClassVar[bool] = False

    @staticmethod
    def of(column: Sequence[str | None], pooled: int = POOLED) -> Texts:
        """A value for each label; where there are more than ``pooled``, the rarest have one together.

        >>> Texts.of(["b", "a", "b", None, "c", "b", "a"], pooled=3).labels
        ('a', 'b', 'c')
        >>> Texts.of(["b", "a", "b", None, "c", "b", "a", "d"], pooled=3).labels
        ('a', 'b', '(other)')
        """
        counts = Counter(cell for cell in column if cell is not None)
        return Texts(kept_labels(counts, sorted(counts), pooled) or ("missing",))

    def codes(self, column: Sequence[str | None]) -> Integers:
        place: dict[str | None, int] = {label: number for number, label in enumerate(self.labels)}
        rest = place.get(OTHER, MISSING)
        return np.array([MISSING if cell is None else place.get(cell, rest) for cell in column], dtype=np.int64)


Column = Numbers | Texts


def kept_labels(counts: Counter[str], order: Sequence[str], pooled: int = POOLED) -> tuple[str, ...]:
    """The labels of a column in this order, the rarest of more than ``pooled`` as one, :data:`OTHER`."""
    if len(counts) <= pooled:
        return tuple(order)
    frequent = {label for label, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: pooled - 1]}
    return (*(label for label in order if label in frequent and label != OTHER), OTHER)


def column_of(name: str, cells: Sequence[Any], bins: int = BINS, *, whole: bool = False) -> Column:
    """What a column is: of truth values, numbers or dates if all its cells are such or missing, else of text.

    ``whole``: of labels that are neither cut nor pooled, as what is predicted must be.

    >>> column_of("size", [1.5, None, 3]).labels, column_of("colour", ["red", None, "blue"]).labels
    (('1.5', '3'), ('blue', 'red'))
    """
    check_bins(bins)
    if not whole:
        truths = any(map(is_truth, cells)) and all(is_truth(cell) or is_missing(cell) for cell in cells)
        for kind in (Truths,) if truths else (Numbers, Dates):
            numbers = kind.numbers(cells)
            if numbers is not None:
                check_finite(name, cells, numbers)
                return kind.of(numbers, bins)
        return Texts.of(as_texts(cells))
    known = {as_text(cell): cell for cell in cells if not is_missing(cell)}
    if len(known) > LABELS:
        raise ValueError(
            f"column {quoted(name)} has {len(known)} different labels, more than {LABELS}; leave the column out, "
            "or put labels together"
        )
    numeric = all(is_number(cell) for cell in known.values())
    return Texts(
        tuple(sorted(known, key=lambda text: float(known[text])) if numeric else sorted(known)) or ("missing",)
    )


def codes_of(labels: Sequence[str], cells: Sequence[Any], *, nearest: bool = True) -> tuple[Integers, list[int]]:
    """The values of cells by the labels of a variable, and the numbers of those cells that it has no value for.

    A finite number is in its interval, or (``nearest``) has the nearest label where all are numbers; what is no label
    goes to the pool, where there is one; else it is missing.

    >>> codes_of(("[-inf, 2)", "[2, inf)"), [1, "3.5", None, "x"])
    (array([ 0,  1, -1, -1]), [3])
    """
    place = {label: number for number, label in enumerate(labels)}
    texts = as_texts(cells)
    found = np.array([MISSING if text is None else place.get(text, MISSING) for text in texts], dtype=np.int64)
    lost = [row for row, text in enumerate(texts) if text is not None and text not in place]
    if not lost:
        return found, []
    column = Numbers.of_labels(labels) or Dates.of_labels(labels) or Truths.of_labels(labels)
    if column is not None:
        numbers = [column.read(str(texts[row])) for row in lost]
        known = np.array([np.nan if number is None or np.isinf(number) else number for number in numbers])
        codes = column.codes(known)
        if not nearest and not column.cut:  # 1.0 is the label 1, but 1.2 is not
            there = np.array([column.read(label) for label in labels], dtype=np.float64)
            codes = np.where(there[codes] == known, codes, MISSING)
        found[lost] = codes
        return found, [row for row, code in zip(lost, codes.tolist(), strict=True) if code == MISSING]
    if OTHER in place:
        found[lost] = place[OTHER]
        return found, []
    return found, lost


def check_bins(bins: int) -> None:
    """A ``ValueError`` unless numbers can be cut into so many intervals."""
    if not is_integer(bins) or not 2 <= bins <= LABELS:
        raise ValueError(f"bins must be a number from 2 to {LABELS}, not {bins!r}")


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing: None, NaN (also those of pandas), empty text."""
    if cell is None or isinstance(cell, str):
        return not cell
    if isinstance(cell, float | np.floating | Decimal):
        return bool(cell != cell)
    return type(cell).__name__ in ("NAType", "NaTType")


def is_number(cell: Any) -> bool:
    """Whether a cell holds a number or a truth value."""
    return isinstance(cell, bool | int | float | Decimal | np.bool_ | np.number)


def is_truth(cell: Any) -> bool:
    """Whether a cell holds a truth value."""
    return isinstance(cell, bool | np.bool_)


def is_integer(given: Any) -> bool:
    """Whether this is a whole number, and no truth value."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def as_numbers(cells: Sequence[Any]) -> Floats | None:
    """The cells as numbers, NaN where they are missing; None if some is neither a number nor missing."""
    if set(map(type, cells)) <= {bool, int, float, type(None)}:
        found = np.array(cells, dtype=np.float64)  # None becomes NaN
    elif all(is_number(cell) or is_missing(cell) for cell in cells):
        found = np.array([np.nan if is_missing(cell) else float(cell) for cell in cells])
    else:
        return None
    return found


def check_finite(name: str, cells: Sequence[Any], numbers: Floats) -> None:
    """A ``ValueError`` that names the first cell whose number is infinite."""
    endless = np.flatnonzero(np.isinf(numbers))
    if endless.size:
        raise ValueError(
            f"Input X contains infinity: column {quoted(name)} holds {cells[endless[0]]} in row {endless[0]}; give "
            "finite numbers, or NaN where a value is missing"
        )


def as_texts(cells: Sequence[Any]) -> list[str | None]:
    """The cells as text, None where they are missing."""
    if set(map(type, cells)) <= {str, type(None)}:
        return [cell or None for cell in cells]
    return [None if is_missing(cell) else as_text(cell) for cell in cells]


def as_text(cell: Any) -> str:
    """A cell as a table in a file would have it: whole numbers without a decimal point."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell)


def _middles(known: Floats) -> Floats:
    return known[:-1] + np.diff(known) / 2
