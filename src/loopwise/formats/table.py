"""Tables of variables as CSV: a column is a variable, a row an example, an empty cell a missing value.

In: a ``.csv`` file (or ``.csv.gz``). Out: a :class:`DataTable` of integers, with the :class:`Vocabulary` that says what
they stand for; and back.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.formats.coding import Dates, Numbers, check_bins, codes_of, kept_labels
from loopwise.formats.errors import FormatError, listed, quoted
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text
from loopwise.formats.numbers import TOO_LARGE, number_in, too_large
from loopwise.formats.vocabulary import Vocabulary as Vocabulary
from loopwise.formats.vocabulary import first_repeat, known_names
from loopwise.notices import DataWarning, warn

Integers = NDArray[np.int64]

_QUOTED = re.compile(r'"[^"]*"')

MISSING_VALUE = -1  # stands for an empty cell, as -1 stands for a free variable everywhere


@dataclass(frozen=True, eq=False)
class DataTable:
    """``values[r, v]`` is row r's value of variable v of the vocabulary, :data:`MISSING_VALUE` for an empty cell."""

    vocabulary: Vocabulary
    values: Integers  # [rows, variables]


def read_table(
    path: PathLike,
    *,
    vocabulary: Vocabulary | None = None,
    cardinalities: Sequence[int] | None = None,
    may_be_empty: Collection[str] = (),
    ignore: Collection[str] = (),
    delimiter: str = ",",
    unseen_is_missing: bool = False,
    bins: int | None = None,
    numbers: Collection[str] | None = None,
    whole: Collection[str] = (),
) -> DataTable:
    """The table of a CSV file whose first line names the variables. Blank lines are skipped, spaces around cells too.

    With a ``vocabulary`` (that of a trained system) columns are found by their name, whatever their order; a variable
    without a column is missing throughout, and a label that it does not have is an error, or (``unseen_is_missing``) a
    missing value, with one warning that counts them; a number is then in its interval, or has the nearest label where
    all are numbers. Without, the labels of each
    column are its vocabulary, in numerical order if all are numbers, else in that of the alphabet; labels 0 and 1 have
    these values even if only one occurs. ``cardinalities``, one a column (those of a structure file): a column of whole
    numbers below its own has them as values, any other at most so many labels. A column without any value is an error
    unless it is named in ``may_be_empty`` (a hidden variable). ``ignore``: columns that are not variables.

    ``bins``: columns of numbers (those named in ``numbers``; None: all that hold nothing else) with more different ones
    are cut into so many intervals of about equally many rows, and the rarest of more than
    :data:`~loopwise.formats.coding.POOLED` other labels become one, as the estimators do; not in the columns ``whole``,
    which are predicted.

    Time: O(cells).
    """
    where = display_name(path)
    header, rows, lines = _cells(path, where, delimiter)
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
    for name in ignore:
        if name not in header:
            raise FormatError(
                where, 1, f"there is no column {quoted(name)} to ignore; {known_names('columns', header, name)}"
            )
    kept = [place for place, name in enumerate(header) if name not in ignore]
    header, columns = [header[place] for place in kept], [columns[place] for place in kept]
    if vocabulary is not None:
        return _with_vocabulary(where, header, columns, lines, vocabulary, unseen_is_missing, whole)
    if cardinalities is not None and len(cardinalities) != len(header):
        raise FormatError(
            where,
            1,
            f"the file has {len(header)} columns, the structure has {len(cardinalities)} variables; "
            "both must have the same number",
        )
    for name in (*may_be_empty, *(numbers or ())):
        if name not in header:
            raise FormatError(where, 1, f"there is no column {quoted(name)}; {known_names('columns', header, name)}")
    labels = []
    for place, (name, column) in enumerate(zip(header, columns, strict=True)):
        size = None if cardinalities is None else int(cardinalities[place])
        made = _labels_of(where, name, column, size, name in may_be_empty)
        if all(map(_is_number, made)):
            _check_bounds(where, lines, name, column)
        if bins is not None and size is None and name not in whole:
            made = _fewer(where, lines, name, column, made, bins, None if numbers is None else name in numbers)
        labels.append(made)
    return _with_vocabulary(where, header, columns, lines, Vocabulary(tuple(header), tuple(labels)))


def write_table(path: PathLike, vocabulary: Vocabulary, values: ArrayLike, *, columns: Sequence[str] = ()) -> None:
    """Writes ``values`` ``[rows, variables]`` by their labels; ``columns``: only these variables, in this order."""
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != len(vocabulary.names):
        raise ValueError(
            f"values of shape {array.shape} do not fit a vocabulary of {len(vocabulary.names)} variables; they must be "
            "[rows, variables]"
        )
    chosen = [vocabulary.variable(name) for name in columns] if columns else range(len(vocabulary.names))
    texts = []
    for place in chosen:
        labels = (*vocabulary.labels[place], "")  # the missing value, -1, is the last
        column = array[:, place]
        bad = np.flatnonzero((column < MISSING_VALUE) | (column >= len(labels) - 1))
        if bad.size:
            raise ValueError(
                f"row {bad[0]} gives variable {quoted(vocabulary.names[place])} the value {column[bad[0]]}; it has "
                f"labels for 0 to {len(labels) - 2}"
            )
        texts.append([labels[value] for value in column.tolist()])
    with atomic_write(path) as out:
        out.write(csv_line([vocabulary.names[place] for place in chosen]))
        out.writelines(csv_line(cells) for cells in zip(*texts, strict=True))


def csv_line(cells: Sequence[object]) -> str:
    r"""A line of a CSV file. A cell with any end of line is quoted, also one that ``csv.writer`` leaves bare (``\r``).

    >>> csv_line(["a", "b,c", ""])
    'a,"b,c",\n'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"


def read_cells(path: PathLike, *, delimiter: str | None = ",") -> tuple[list[str], list[list[str]], list[int]]:
    """The texts of a CSV file as they are: the names of its columns, its rows, and the line on which each row ends.

    Spaces around cells are taken away. ``delimiter``: what separates columns; None: commas, or where the first line has
    none, semicolons or tabs. A file that is empty or has rows of other lengths is a :class:`FormatError`.
    """
    return _cells(path, display_name(path), delimiter)


def _cells(path: PathLike, where: str, delimiter: str | None) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows of as many cells, and the line on which each row ends."""
    text = read_text(path)
    told = delimiter or _delimiter(text)
    records = _records(text, where, told)
    line, header = next(records, (None, []))
    if not header:
        raise FormatError(where, None, "the file is empty; its first line must name the variables, one a column")
    for other in ";\t":
        if len(header) == 1 and other in header[0] and other != told:
            raise FormatError(where, line, f"columns seem to be separated by {other!r}; separate them by {told!r}")
    for place, name in enumerate(header):
        if not name:
            raise FormatError(where, line, f"column {place + 1} has no name; the first line must name each variable")
    twice = first_repeat(header)
    if twice is not None:
        raise FormatError(where, line, f"two columns are called {quoted(twice)}; give each variable one column")
    rows, lines = [], []
    for line, row in records:
        if len(row) != len(header):
            raise FormatError(
                where,
                line,
                f"this row has {len(row)} cells, the first line names {len(header)} columns; leave the cell of a "
                "missing value empty",
            )
        rows.append(row)
        lines.append(line)
    if not rows:
        raise FormatError(where, None, "the file names its columns but has no rows; add at least one")
    return header, rows, lines


def _delimiter(text: str) -> str:
    """A comma, or what the first line has instead, outside of quotes."""
    bare = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
    return next((mark for mark in ",;\t" if mark in bare), ",")


def _records(text: str, where: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        try:
            record = next(reader, None)
        except csv.Error as problem:
            raise FormatError(where, reader.line_num, f"this line is no CSV: {problem}") from None
        if record is None:
            return
        if record:
            yield reader.line_num, [cell.strip() for cell in record]


def _labels_of(where: str, name: str, column: Sequence[str], size: int | None, may_be_empty: bool) -> tuple[str, ...]:
    found = set(column) - {""}
    if not found:
        if not may_be_empty:
            raise FormatError(
                where,
                None,
                f"column {quoted(name)} has no value in any row, so nothing can be learnt of it; remove the column, or "
                "name it as hidden",
            )
        return _numbers(2 if size is None else size)
    if size is not None and found <= set(_numbers(size)):
        return _numbers(size)
    if size is not None and len(found) > size:
        ordered = sorted(found, key=_order)
        raise FormatError(
            where,
            None,
            f"column {quoted(name)} has {len(found)} different labels ({listed(ordered)}), its variable "
            f"in the structure has {size} values; "
            "merge labels, or give the variable more values",
        )
    if size is None and found <= {"0", "1"}:
        return ("0", "1")
    return tuple(sorted(found, key=_order)) if all(map(_is_number, found)) else tuple(sorted(found))


def _check_bounds(where: str, lines: Sequence[int], name: str, column: Sequence[str]) -> None:
    row = too_large(column)
    if row is not None:
        raise FormatError(where, lines[row], f"column {quoted(name)} holds {quoted(column[row])}, {TOO_LARGE}")


def _fewer(
    where: str,
    lines: Sequence[int],
    name: str,
    column: Sequence[str],
    labels: tuple[str, ...],
    bins: int,
    numeric: bool | None,
) -> tuple[str, ...]:
    """Intervals instead of many numbers, a pool instead of many rare labels; few labels stay."""
    check_bins(bins)
    numbers = [number_in(label) for label in labels]
    if numeric and None in numbers:
        text = labels[numbers.index(None)]
        row = column.index(text)
        raise FormatError(
            where, lines[row], f"column {quoted(name)} should hold numbers, but holds {quoted(text)}; leave it empty"
        )
    if None in numbers and numeric is None:
        days = Dates.numbers(column)
        if days is not None:
            return Dates.of(days, bins).labels
    if None in numbers or numeric is False:
        return kept_labels(Counter(cell for cell in column if cell), labels)
    if len(labels) <= bins:
        return labels
    value = dict(zip(labels, numbers, strict=True))
    return Numbers.of(np.array([value[cell] for cell in column if cell], dtype=np.float64), bins).labels


def _with_vocabulary(
    where: str,
    header: Sequence[str],
    columns: Sequence[Sequence[str]],
    lines: Sequence[int],
    vocabulary: Vocabulary,
    unseen_is_missing: bool = False,
    whole: Collection[str] = (),
) -> DataTable:
    unseen: list[tuple[int, str, str]] = []  # line, variable, label
    values = np.full((len(lines), len(vocabulary.names)), MISSING_VALUE, dtype=np.int64)
    for name, column in zip(header, columns, strict=True):
        if name not in vocabulary.places:
            known = known_names("variables", vocabulary.names, name)
            raise FormatError(where, 1, f"there is no variable {quoted(name)}; {known} (or ignore the column)")
        place = vocabulary.variable(name)
        if Numbers.of_labels(vocabulary.labels[place]) is not None:
            _check_bounds(where, lines, name, column)
        nearest = unseen_is_missing and name not in whole
        values[:, place], rows = codes_of(vocabulary.labels[place], column, nearest=nearest)
        if rows and not unseen_is_missing:
            raise FormatError(
                where,
                lines[rows[0]],
                f"variable {quoted(name)} has no value {quoted(column[rows[0]])}; "
                f"{known_names('values', vocabulary.labels[place], column[rows[0]])}",
            )
        unseen += [(lines[row], name, column[row]) for row in rows]
    if unseen:
        warn_of_unseen(where, unseen, vocabulary)
    return DataTable(vocabulary, values)


def warn_of_unseen(
    where: str, unseen: Sequence[tuple[int, str, str]], vocabulary: Vocabulary, unit: str = "line"
) -> None:
    """One warning of all cells with labels that are not in the vocabulary: ``(line, variable, label)``."""
    line, name, label = min(unseen)
    known = known_names("values", vocabulary.labels[vocabulary.variable(name)], label)
    warn(
        f"{where}: {len(unseen)} cells hold labels that training did not see, the first on {unit} {line} "
        f"({quoted(label)} in column {quoted(name)}; {known}); they count as missing",
        DataWarning,
    )


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(count))


def _is_number(text: str) -> bool:
    return number_in(text) is not None


def _order(text: str) -> tuple[float, str]:
    number = number_in(text)
    return (np.inf if number is None else number, text)
