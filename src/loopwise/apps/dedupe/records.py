"""Tables of records as people have them: names of columns, texts in cells.

In: a CSV file, a data frame, columns or rows by name. Out: :class:`Records`. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import listed, quoted
from loopwise.formats.files import PathLike, display_name
from loopwise.formats.table import read_cells

RecordsLike = Any  # Records, a path, a data frame, a mapping of columns, a list of mappings


@dataclass(frozen=True, eq=False)
class Records:
    """Rows of texts; an empty text is a missing value. ``source``: what messages call the table.

    >>> table = Records.of([{"name": "Ann Lee", "city": "York"}, {"name": "Anne Lee", "city": None}])
    >>> table.names, len(table), table.column("city")
    (('name', 'city'), 2, ('York', ''))
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    source: str = "the table"

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError(f"{self.source} has no columns; give at least one to compare")
        twice = next((name for place, name in enumerate(self.names) if name in self.names[:place]), None)
        if twice is not None:
            raise ValueError(f"{self.source} has two columns called {quoted(twice)}; give each a name of its own")
        lengths = {len(column) for column in self.columns}
        if len(self.columns) != len(self.names) or len(lengths) > 1:
            raise ValueError(f"columns of {self.source} have different lengths; each row needs a cell in every column")

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, name: str) -> tuple[str, ...]:
        """The texts of a column."""
        if name not in self.names:
            near = get_close_matches(name, self.names, 1)
            hint = f"did you mean {quoted(near[0])}?" if near else f"its columns are {listed(self.names)}"
            raise ValueError(f"{self.source} has no column {quoted(name)}; {hint}")
        return self.columns[self.names.index(name)]

    def row(self, number: int) -> dict[str, str]:
        """A record by the names of its columns."""
        return {name: column[number] for name, column in zip(self.names, self.columns, strict=True)}

    def take(self, rows: Any) -> Records:
        """Some rows, in the order given."""
        chosen = np.asarray(rows).tolist()
        columns = tuple(tuple(column[row] for row in chosen) for column in self.columns)
        return Records(self.names, columns, self.source)

    def joined(self, other: Records) -> Records:
        """The rows of both tables; columns that only one has are empty in the other's rows."""
        names = (*self.names, *(name for name in other.names if name not in self.names))
        parts = [
            [table.column(name) if name in table.names else ("",) * len(table) for name in names]
            for table in (self, other)
        ]
        columns = tuple((*mine, *theirs) for mine, theirs in zip(*parts, strict=True))
        return Records(names, columns, f"{self.source} and {other.source}")

    @staticmethod
    def of(data: RecordsLike) -> Records:
        """From a CSV file, a data frame, a mapping of columns, or a list of mappings; None and NaN are missing."""
        if isinstance(data, Records):
            return data
        if isinstance(data, str | os.PathLike):
            return read_records(data)
        if isinstance(data, Mapping):
            return _of_columns({str(name): list(values) for name, values in data.items()})
        if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
            return _of_columns({str(name): list(data[name]) for name in data.columns})
        return _of_rows(data)


def side_of(first: Records, second: Records | None) -> NDArray[np.int64] | None:
    """The table of each row of the two joined, 0 or 1; None where there is one table."""
    return None if second is None else np.repeat([0, 1], [len(first), len(second)])


def read_records(path: PathLike, *, delimiter: str | None = None) -> Records:
    """The records of a CSV file (``.gz`` may follow) whose first line names the columns.

    ``delimiter``: None takes commas, or where the first line has none, semicolons or tabs.
    """
    names, rows, _ = read_cells(path, delimiter=delimiter)
    columns = tuple(zip(*rows, strict=True)) if rows else tuple(() for _ in names)
    return Records(tuple(names), columns, display_name(path))


def _of_columns(columns: Mapping[str, Sequence[Any]]) -> Records:
    return Records(tuple(columns), tuple(tuple(_text(cell) for cell in values) for values in columns.values()))


def _of_rows(data: Any) -> Records:
    if isinstance(data, Iterator):
        raise ValueError("records are read more than once, and an iterator is empty after that: give list(records)")
    try:
        rows = list(data)
        names = list(dict.fromkeys(str(name) for row in rows for name in row.keys()))  # noqa: SIM118
    except (TypeError, AttributeError):
        raise ValueError(
            f"records must be a table (a CSV file, a data frame, columns or rows by name), not {type(data).__name__}"
        ) from None
    if not rows:
        raise ValueError("the table has no rows; give at least two records")
    return _of_columns({name: [row.get(name) for row in rows] for name in names})


def _text(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell).strip()
