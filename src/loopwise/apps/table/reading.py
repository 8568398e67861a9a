"""From tables as people have them to columns with few values, and back; and as files keep them.

In: arrays, lists, data frames. Out: :class:`Columns`, cells. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.estimator import column_names
from loopwise.apps.table.features import Answers, TableColumns, as_table, column_of_file, described_column
from loopwise.formats.coding import OTHER, Column, Dates, Numbers, Texts, as_text, is_missing, is_number
from loopwise.formats.errors import quoted
from loopwise.formats.frames import frame_columns, is_frame
from loopwise.formats.numbers import TOO_LARGE, number_in, too_large
from loopwise.formats.vocabulary import first_repeat, known_names
from loopwise.learn.files.fields import FieldError, Record
from loopwise.notices import DataWarning, warn

Floats = NDArray[np.float64]
_TRUTHS = {"True": True, "False": False}  # as data frames write them
MIXED = 0.5  # share of numbers from which on a column of text is probably one of numbers with something wrong


def table_of(given: Any) -> NDArray[Any]:
    """Cells ``[rows, columns]`` of an array, lists, or a data frame of any library that narwhals reads."""
    _check_names(column_names(given) or ())
    if not is_frame(given) or column_names(given) is None:
        return as_table(given)
    columns = frame_columns(given)
    rows = len(next(iter(columns.values()), ()))
    found = np.empty((rows, len(columns)), dtype=object)
    for place, cells in enumerate(columns.values()):
        found[:, place] = cells
    return as_table(found)


def missing_cells(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells of a table (:func:`table_of`) are empty."""
    empty: Any = np.frompyfunc(is_missing, 1, 1) if table.dtype == object else np.isnan
    return np.asarray(empty(table), dtype=np.bool_)


def check_columns(names: Sequence[str], table: NDArray[Any], *, allow_empty: bool) -> None:
    """Refuses names that are there twice and columns without any value, or (``allow_empty``) warns of these; warns of
    numbers mixed with text."""
    _check_names(names)
    empty = np.flatnonzero(missing_cells(table).all(axis=0)).tolist()
    if empty:
        said = f"column {quoted(names[empty[0]])} has no value in any row, so nothing can be learnt of it; leave it out"
        if not allow_empty:
            raise ValueError(said)
        warn(said, DataWarning)
    if table.dtype == object:
        for place, name in enumerate(names):
            _warn_of_mixture(name, table[:, place].tolist())


def _check_names(names: Sequence[str]) -> None:
    twice = first_repeat(names)
    if twice is not None:
        raise ValueError(f"two columns are called {quoted(twice)}; give each a name of its own")


def _warn_of_mixture(name: str, cells: Sequence[Any]) -> None:
    known = [cell for cell in cells if not is_missing(cell)]
    texts = [cell for cell in known if isinstance(cell, str)]
    numbers = sum(is_number(cell) for cell in known)
    if texts and numbers > MIXED * len(known):
        warn(
            f"column {quoted(name)} holds {numbers} numbers and {len(texts)} texts such as {quoted(texts[0])}, so that "
            "each number counts as a label; mend the texts, or leave these cells empty",
            DataWarning,
        )


def read_columns(table: NDArray[Any], names: Sequence[str], bins: int) -> TableColumns:
    """What the columns are, with intervals learnt from these rows."""
    return TableColumns.of(table, names, bins)


def representatives(columns: TableColumns, table: NDArray[Any]) -> list[list[Any]]:
    """For each value of each column a cell that stands for it: a label, or the middle of the numbers that have it."""
    found: list[list[Any]] = []
    codes = columns.codes(table)
    for place, column in enumerate(columns.columns):
        if isinstance(column, Numbers) and column.cut:
            numbers = column.numbers(table[:, place].tolist())
            assert numbers is not None
            found.append([_middle(numbers[codes[:, place] == value], column) for value in range(len(column.labels))])
        else:
            found.append(_distinct_cells(table[:, place], codes[:, place], column))
    return found


def _middle(numbers: Floats, column: Numbers) -> Any:
    """The median of known numbers that is one of them."""
    known = np.sort(numbers[~np.isnan(numbers)])
    return column.cell(float(known[(len(known) - 1) // 2])) if len(known) else None


def _distinct_cells(cells: NDArray[Any], codes: NDArray[np.int64], column: Column) -> list[Any]:
    """A cell of each value, as files keep it; the label where training has none."""
    found: list[Any] = []
    for value, label in enumerate(column.labels):
        rows = np.flatnonzero(codes == value)
        own = isinstance(column, Dates) or label == OTHER or not len(rows)
        found.append(label if own else _plain(cells[rows[0]]))
    return found


def _plain(cell: Any) -> Any:
    """A cell as Python's own number, truth value or text."""
    cell = cell.item() if isinstance(cell, np.generic) else float(cell) if isinstance(cell, Decimal) else cell
    return cell if isinstance(cell, str | int | float) else as_text(cell)


def cells_like(column: Column, centres: Sequence[Any]) -> NDArray[Any]:
    """The cell that stands for each value of a column."""
    found = np.empty(len(column.labels), dtype=object)
    found[:] = list(centres)
    return found


def like_others(cells: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """Cells that fill a column in the type of those that are known: dates as these are given, exact decimals."""
    first, found = next(iter(known), None), cells.astype(object)
    if isinstance(first, Decimal):
        found[:] = [Decimal(str(cell)) for cell in cells]
    elif isinstance(first, date | np.datetime64):
        found[:] = [Dates.like(first, cell) for cell in cells]
    return found


# --- Files -----------------------------------------------------------------------------------------------------------


def saved_columns(columns: TableColumns, centres: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns as JSON."""
    return [
        {**described_column(column), "cells": list(own)} for column, own in zip(columns.columns, centres, strict=True)
    ]


def read_saved_columns(told: Record) -> tuple[tuple[Column, ...], list[list[Any]]]:
    """Columns of a file, and the cells that stand for their values."""
    pairs = told.items("columns", lambda record, name: _read_column(record.record(name)))
    return tuple(column for column, _ in pairs), [cells for _, cells in pairs]


def _read_column(told: Record) -> tuple[Column, list[Any]]:
    column, cells = column_of_file(told), told.raw("cells")
    if not isinstance(cells, list) or len(cells) != len(column.labels):
        raise FieldError(told.name("cells"), f"must have a cell for each of {len(column.labels)} labels")
    return column, cells


def saved_answers(answers: Answers) -> dict[str, Any]:
    """Outputs as JSON."""
    return {
        "classes": [{"type": known.dtype.str, "labels": known.tolist()} for known in answers.classes],
        "flat": answers.flat,
        "names": list(answers.names),
    }


def read_answers(told: Record) -> Answers:
    """Outputs of a file."""
    classes = told.items("classes", lambda record, name: record.record(name).classes("labels", "type"))
    names, flat = told.texts("names"), told.flag("flat")
    if len(names) != len(classes) or not classes:
        raise FieldError(told.name("names"), f"lists {len(names)} outputs, but there are classes of {len(classes)}")
    if flat and len(classes) > 1:
        raise FieldError(told.name("flat"), f"says that there is one output, but there are {len(classes)}")
    return Answers(names, classes, flat)


# --- Files of users --------------------------------------------------------------------------------------------------


class NamedCells:
    """An array of cells whose columns have names: what is read of a file, as estimators take data frames."""

    def __init__(self, columns: Sequence[str], cells: NDArray[Any]) -> None:
        self.columns, self.cells = tuple(columns), cells

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.cells.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self.cells if dtype is None else self.cells.astype(dtype)


def cells_of_texts(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    labels: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
) -> NamedCells:
    """Texts as cells: None where they are empty, numbers or truth values in columns that hold nothing else.

    Columns among ``labels`` are labels, whole numbers or truth values where all of them are; ``numbers``: only these
    are numbers, and must hold nothing else.
    """
    for name in numbers or ():
        if name not in columns:
            raise ValueError(f"there is no column {quoted(name)} of numbers; {known_names('columns', columns, name)}")
    cells = np.empty((len(rows), len(columns)), dtype=object)
    for place, name in enumerate(columns):
        texts = [row[place] for row in rows]
        if name in labels:
            cells[:, place] = _labels_in(texts)
            continue
        cells[:, place] = [text or None for text in texts]
        if numbers is not None and name not in numbers:
            continue
        found = [None if not text else number_in(text) for text in texts]
        wrong = next((row for row, text in enumerate(texts) if text and found[row] is None), None)
        if wrong is None:
            _check_bounds(name, texts)
            cells[:, place] = found
        elif set(texts) <= {"", *_TRUTHS}:
            cells[:, place] = [_TRUTHS.get(text) for text in texts]
        elif numbers is not None:
            raise ValueError(
                f"column {quoted(name)} should hold numbers, but row {wrong + 1} holds {quoted(texts[wrong])}; leave "
                "it empty"
            )
        else:  # told of as a mixture of numbers and texts, as in a data frame
            _warn_of_mixture(
                name, [text if number is None else number for text, number in zip(texts, found, strict=True)]
            )
    return NamedCells(columns, cells)


def _check_bounds(name: str, texts: Sequence[str]) -> None:
    row = too_large(texts)
    if row is not None:
        raise ValueError(f"column {quoted(name)} holds {quoted(texts[row])} in row {row + 1}, {TOO_LARGE}")


def _labels_in(texts: Sequence[str]) -> list[Any]:
    """Labels as a data frame of the same file would have them: numbers or truth values if these are how all of them
    are written."""
    for read in (_whole_in, _TRUTHS.get):
        found = [read(text) if text else None for text in texts]
        if all(as_text(label) == text for label, text in zip(found, texts, strict=True) if text):
            return found
    return [text or None for text in texts]


def _whole_in(text: str) -> int | None:
    number = number_in(text)
    return int(number) if number is not None and number.is_integer() else None


def cells_for(
    columns: TableColumns, header: Sequence[str], rows: Sequence[Sequence[str]], others: Sequence[str]
) -> Any:
    """Texts of a file as a trained model's columns want them, ``{name: cells}``; columns that are not there are empty.

    What is no number in a column of numbers counts as missing, with a warning. ``others`` (outputs) stay text.
    """
    found: dict[str, list[Any]] = {}
    strange: list[tuple[str, str]] = []
    place_of = {name: place for place, name in enumerate(header)}
    for name, column in zip(columns.names, columns.columns, strict=True):
        texts = [row[place_of[name]] for row in rows] if name in place_of else [""] * len(rows)
        if isinstance(column, Texts):
            found[name] = [text or None for text in texts]
            continue
        _check_bounds(name, texts)
        numbers = [column.read(text) if text else None for text in texts]
        strange += [(name, text) for text, number in zip(texts, numbers, strict=True) if text and number is None]
        keep = isinstance(column, Dates)  # which are read from their texts
        found[name] = [
            (text if keep else number) if number is not None else None
            for text, number in zip(texts, numbers, strict=True)
        ]
    for name in others:
        found[name] = [row[place_of[name]] or None for row in rows] if name in place_of else [None] * len(rows)
    if strange:
        warn(
            f"{len(strange)} cells are no numbers or dates where training had them, the first {quoted(strange[0][1])} "
            f"in column {quoted(strange[0][0])}; they count as missing",
            DataWarning,
        )
    return found
