"""Tables 1 and 2 of Gormley, Dredze & Eisner 2015 by language and column.

In: ``published.toml``. Out: numbers, None where the paper has none.
"""

from __future__ import annotations

from studies.harness.published import published

_PRINTED = published("parser")
TABLE1: dict[str, dict[str, dict[str, float]]] = _PRINTED["table1"]  # by objective, then "bp" or "exact": dev, test
_COLUMNS: list[str] = _PRINTED["table2"]["columns"]


def language_of(treebank: str) -> str:
    """The language a treebank is named after.

    >>> language_of("English-EWT")
    'English'
    """
    return treebank.partition("-")[0]


def printed(treebank: str, column: str) -> tuple[float, float] | None:
    """CLL, and L2 less CLL, of a treebank's language in a column of Table 2."""
    rows: dict[str, list[list[float]]] = _PRINTED["table2"]["languages"]
    return _pair(rows.get(language_of(treebank), []), column)


def printed_average(column: str) -> tuple[float, float] | None:
    """The same of all 19 languages."""
    return _pair(_PRINTED["table2"]["average"], column)


def _pair(row: list[list[float]], column: str) -> tuple[float, float] | None:
    if not row or column not in _COLUMNS:
        return None
    first, second = row[_COLUMNS.index(column)]
    return first, second
