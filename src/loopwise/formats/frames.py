"""Data frames of pandas, polars and whatever else narwhals reads: columns in, columns out.

In: a data frame. Out: its names and columns as plain lists; and back. Missing values are None.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from loopwise.formats.coding import BINS, Dates, as_numbers, as_text, check_finite, codes_of, column_of, is_missing
from loopwise.formats.errors import quoted
from loopwise.formats.table import MISSING_VALUE, DataTable, warn_of_unseen
from loopwise.formats.vocabulary import Vocabulary

_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
_PREFERRED = ("pandas", "polars", "pyarrow")


def is_frame(given: object) -> bool:
    """Whether this is a data frame; arrays, lists and mappings are none."""
    if not hasattr(given, "columns") or type(given).__module__.split(".")[0] not in (*_LIBRARIES, "narwhals"):
        return False
    return bool(_narwhals().dependencies.is_into_dataframe(given) or hasattr(given, "__narwhals_dataframe__"))


def frame_columns(given: Any) -> dict[str, list[Any]]:
    """The columns of a data frame by name, as lists of Python's own numbers, truth values, texts and None.

    Raises
    ------
    ValueError
        If two columns have one name.
    """
    frame = _narwhals().from_native(given, eager_only=True)
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"two columns of the data frame are called {twice!r}; give each a name of its own")
    return {name: [_plain(cell) for cell in frame[name].to_list()] for name in frame.columns}


def frame_array(given: Any) -> np.ndarray | None:
    """A data frame as an array ``[rows, columns]``: float64 where all columns are numbers (missing ones NaN), else of
    objects (missing ones None). None if this is no data frame, or narwhals is not there to read it."""
    if importlib.util.find_spec("narwhals") is None or not is_frame(given):
        return None
    narwhals = _narwhals()
    frame = narwhals.from_native(given, eager_only=True)
    columns = [frame[:, place] for place in range(len(frame.columns))]
    numeric = [column.dtype.is_numeric() or column.dtype == narwhals.Boolean for column in columns]
    if all(numeric):
        cells = [column.cast(narwhals.Float64).to_numpy() for column in columns]
        return np.stack(cells, axis=1).astype(np.float64) if cells else np.zeros((len(frame), 0))
    made = np.empty((len(frame), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        made[:, place] = [_plain(cell) for cell in column.to_list()]
    return made


def read_frame(
    given: Any,
    *,
    vocabulary: Vocabulary | None = None,
    bins: int = BINS,
    whole: Collection[str] = (),
    may_be_empty: Collection[str] = (),
) -> DataTable:
    """The columns of a data frame as variables, as :func:`~loopwise.formats.table.read_table` has those of a file.

    ``vocabulary``: that of a trained system; columns are found by name, those of variables that are not there are
    missing, labels that it does not have count as missing, with one warning. Without: numbers with more than ``bins``
    different values are cut into intervals, rare labels pooled, but not in the columns ``whole``.
    """
    columns = frame_columns(given)
    rows = len(next(iter(columns.values()), ()))
    if vocabulary is None:
        for name in may_be_empty:
            columns.setdefault(name, [None] * rows)
        labels = []
        for name, cells in columns.items():
            made = column_of(name, cells, bins, whole=name in whole).labels
            if all(map(is_missing, cells)):
                if name not in may_be_empty:
                    raise ValueError(
                        f"column {quoted(name)} has no value in any row, so nothing can be learnt of it; drop the "
                        "column, or name it as hidden"
                    )
                made = ("0", "1")
            labels.append(made)
        vocabulary = Vocabulary(tuple(columns), tuple(labels))
    values = np.full((rows, len(vocabulary.names)), MISSING_VALUE, dtype=np.int64)
    unseen: list[tuple[int, str, str]] = []
    for name, cells in columns.items():
        place = vocabulary.variable(name)
        numbers = as_numbers(cells)
        if numbers is not None:
            check_finite(name, cells, numbers)
        values[:, place], lost = codes_of(vocabulary.labels[place], cells, nearest=name not in whole)
        unseen += [(row, name, str(cells[row])) for row in lost]
    if unseen:
        warn_of_unseen("the data frame", unseen, vocabulary, "row")
    return DataTable(vocabulary, values)


def make_frame(columns: Mapping[str, Sequence[Any]], backend: str | None = None, *, like: Any = None) -> Any:
    """A data frame of ``columns``, of the library of ``like`` or the one named, or the first that is installed."""
    narwhals = _narwhals()
    if like is not None:
        given = narwhals.from_native(like, eager_only=True)
        return narwhals.from_dict(dict(columns), backend=given.implementation).to_native()
    chosen = backend or next((name for name in _PREFERRED if importlib.util.find_spec(name)), None)
    if chosen is None:
        raise ValueError(f"no library of data frames is installed; install one of {', '.join(_PREFERRED)}")
    try:
        return narwhals.from_dict(dict(columns), backend=chosen).to_native()
    except (ModuleNotFoundError, ImportError):
        raise ValueError(f"{chosen} is not installed; install it, or leave backend out") from None


def refilled(given: Any, columns: Sequence[np.ndarray], changed: Sequence[int]) -> Any:
    """A data frame with other cells in the columns numbered ``changed``: with its index, and the types of its columns
    as far as they hold the new cells.

    >>> import pandas
    >>> frame = pandas.DataFrame({"a": [1.5, None], "b": ["x", "y"]}, index=[7, 8])
    >>> refilled(frame, [np.array([1.5, 2], dtype=object)], [0])["a"].to_dict()
    {7: 1.5, 8: 2.0}
    """
    narwhals = _narwhals()
    if hasattr(given, "iloc"):  # of pandas: by place, since names may be of any type
        made = given.copy()
        for place in changed:
            made.isetitem(place, _series_like(given.iloc[:, place], columns[place].tolist()))
        return made
    frame = narwhals.from_native(given, eager_only=True)
    new = [_column_like(frame, frame[:, place], columns[place].tolist()) for place in changed]
    return frame.with_columns(*new).to_native() if new else given


def _column_like(frame: Any, old: Any, cells: list[Any]) -> Any:
    """A series of narwhals with other cells: in the old type, in what the library makes of them, or as texts."""
    for kind, given in ((old.dtype, _temporal(old.dtype, cells)), (None, cells), (None, list(map(as_text, cells)))):
        with contextlib.suppress(Exception):  # each library has errors of its own for cells that a type does not hold
            made = _narwhals().new_series(old.name, given, kind, backend=frame.implementation)
            if not made.is_null().any():
                return made
    raise ValueError(f"column {quoted(old.name)} of the data frame cannot hold the cells that were empty")


def _series_like(old: Any, cells: Sequence[Any]) -> Any:
    """A series of pandas with other cells, in the old type if that holds them."""
    made = type(old)(cells, index=old.index, name=old.name)
    try:
        same = made.astype(old.dtype)
    except (TypeError, ValueError):
        return made
    return made if same.isna().any() else same  # a category that it does not have


def _temporal(kind: Any, cells: list[Any]) -> list[Any]:
    """Cells of a column of dates or times whose texts are such."""
    narwhals = _narwhals()
    if kind not in (narwhals.Date, narwhals.Datetime):
        return cells
    other = date.min if kind == narwhals.Date else datetime.min
    return [Dates.like(other, cell) if isinstance(cell, str) else cell for cell in cells]


def _narwhals() -> Any:
    try:
        import narwhals
    except ModuleNotFoundError:
        raise ValueError(
            "data frames are read and made by narwhals, which is not installed: pip install 'loopwise[frames]'"
        ) from None
    return narwhals


def _plain(cell: Any) -> Any:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if type(cell).__name__ in ("NAType", "NaTType"):
        return None
    return cell
