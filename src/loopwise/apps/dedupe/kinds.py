"""What a column holds: names, text, numbers, dates, places, points, categories, phones or codes, sets.

In: texts of a column and its name. Out: a :class:`Kind`. Stage: use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from math import inf, isfinite

from loopwise.apps.dedupe.records import Records
from loopwise.formats.errors import listed, quoted
from loopwise.notices import DataWarning, warn

_SAMPLE = 2000  # values that a guess looks at
_MOST = 0.9  # share of the values that must be of a kind


class Kind(str, Enum):
    """How the values of a column are compared; ``POINT``: latitude, longitude; ``IGNORE``: not at all."""

    NAME = "name"
    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    PLACE = "place"
    POINT = "point"
    CATEGORY = "category"
    PHONE = "phone"
    SET = "set"
    IGNORE = "ignore"


_NUMBER = re.compile(r"^[^\w.+-]*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*[^\w.,]?$")
_DECIMAL_COMMA = re.compile(r"^[^\w.+-]*([+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)),(\d+)\s*[^\w.,]?$")
_POINT = re.compile(r"^\s*\(?\s*(-?\d+\.\d+)\s*[,; ]\s*(-?\d+\.\d+)\s*\)?\s*$")
_SEPARATOR = re.compile(r"\*\*|\||;")
_DATES = (
    (re.compile(r"^(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})(?:[T ].*)?$"), (0, 1, 2)),
    (re.compile(r"^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})$"), (2, 1, 0)),
    (re.compile(r"^(\d{1,2})/(\d{1,2})/(\d{4})$"), (2, 0, 1)),
)
_MONTH_FIRST = (_DATES[0], _DATES[2], _DATES[1])
_SLASHED = re.compile(r"^(\d{1,2})/(\d{1,2})/\d{4}$")
_PLACES = re.compile(r"address|street|road|city|town|suburb|state|county|country|place|location|zip|post_?code", re.I)
_PHONES = re.compile(r"phone|\bfax\b|\btel\b|mobile", re.I)
_IDS = re.compile(r"(^|[^a-z])(id|key|uuid|guid|rowid)$", re.I)


def number_of(text: str) -> float | None:
    """The number that a text is, with signs of money, thousands and per cent; None if it is none.

    A comma is a decimal one after points for thousands, or before other than three digits.

    >>> number_of("$1,234.50"), number_of("1.234,50 €"), number_of("12 b")
    (1234.5, 1234.5, None)
    """
    found = _NUMBER.match(text)
    digits = found[1].replace(",", "") if found else ""
    if not found and (decimal := _DECIMAL_COMMA.match(text)):
        digits = f"{decimal[1].replace('.', '')}.{decimal[2]}"
    try:
        number = float(digits) if digits else inf
    except ValueError:
        return None
    return number if isfinite(number) else None


def day_of(text: str, month_first: bool = False) -> int | None:
    """The day that a text names, counted from the year 1; None if it names none.

    ``month_first``: how ``03/04/1999`` is read; the other way only where this one gives no day.

    >>> day_of("1999-01-31") == day_of("31/1/1999"), day_of("19991331") is None
    (True, True)
    """
    for pattern, order in _MONTH_FIRST if month_first else _DATES:
        found = pattern.match(text)
        if found:
            year, month, day = (int(found[place + 1]) for place in order)
            try:
                return date(year, month, day).toordinal()
            except ValueError:
                continue
    return None


def days_of(texts: Sequence[str]) -> list[int | None]:
    """The days of a column. Months come first in all of it if they do in more of the texts that leave no choice.

    >>> days_of(["01/31/1999", "02/01/1999"])[1] - days_of(["2/1/1999"])[0]
    30
    """
    only_month = only_day = 0
    for text in texts:
        found = _SLASHED.match(text)
        if found:
            only_month += int(found[2]) > 12
            only_day += int(found[1]) > 12
    return [day_of(text, only_month > only_day) for text in texts]


def point_of(text: str) -> tuple[float, float] | None:
    """Latitude and longitude, written with a comma or space between; None if it is no point."""
    found = _POINT.match(text)
    if found is None:
        return None
    latitude, longitude = float(found[1]), float(found[2])
    return (latitude, longitude) if abs(latitude) <= 90 and abs(longitude) <= 180 else None


def elements_of(text: str) -> list[str]:
    """The members of a set: parted by ``**``, ``|`` or ``;``, or where there is none of these by commas."""
    parts = _SEPARATOR.split(text) if _SEPARATOR.search(text) else text.split(",")
    return [part.strip() for part in parts if part.strip()]


def guess_kind(name: str, values: Sequence[str]) -> Kind:
    """The kind of a column by its name and values.

    >>> guess_kind("price", ["$4.50", "$12", "$7.25"]), guess_kind("born", ["1999-01-31", "1980-12-01"])
    (<Kind.NUMBER: 'number'>, <Kind.DATE: 'date'>)
    """
    filled = [value for value in values if value]
    step = max(len(filled) // _SAMPLE, 1)
    sample = filled[::step][:_SAMPLE]
    distinct = len(set(sample))
    if not filled or (distinct == 1 and len(filled) > 1):
        return Kind.IGNORE
    if _is_row_id(name, filled):
        return Kind.IGNORE
    if _share(sample, lambda text: point_of(text) is not None) >= _MOST:
        return Kind.POINT
    if _PHONES.search(name):
        return Kind.PHONE
    if _share(sample, lambda text: day_of(text) is not None) >= _MOST:
        return Kind.DATE
    if _share(sample, lambda text: bool(_SEPARATOR.search(text))) >= 0.3:
        return Kind.SET
    if _share(sample, lambda text: number_of(text) is not None) >= _MOST:
        return _kind_of_numbers(name, sample, distinct)
    if _share(sample, _is_code) >= _MOST:
        return Kind.PHONE
    if _PLACES.search(name):
        return Kind.PLACE
    return _kind_of_words(sample, distinct, len(filled))


def _kind_of_words(sample: Sequence[str], distinct: int, filled: int) -> Kind:
    words = sum(len(text.split()) for text in sample) / max(len(sample), 1)
    if filled >= 20 and distinct <= max(10, len(sample) // 50) and words <= 4:
        return Kind.CATEGORY
    return Kind.TEXT if words > 5 else Kind.NAME


def _kind_of_numbers(name: str, sample: Sequence[str], distinct: int) -> Kind:
    """Whole numbers of one length, as postcodes and insurance numbers are, are codes; others are quantities."""
    whole = _share(sample, lambda text: text.isdigit() and len(text) >= 4) >= _MOST
    lengths = {len(text) for text in sample}
    if whole and (len(lengths) <= 2 or _IDS.search(name) or _PLACES.search(name)):
        return Kind.PHONE
    return Kind.CATEGORY if len(sample) >= 20 and distinct <= 5 else Kind.NUMBER


def _is_code(text: str) -> bool:
    """Mostly digits, one word or with the marks that phone numbers have."""
    digits = sum(letter.isdigit() for letter in text)
    return digits >= 4 and digits >= 0.6 * len(text)


def _is_row_id(name: str, filled: Sequence[str]) -> bool:
    """A different whole number (or, by its name, any code) in every row tells rows apart and compares nothing."""
    if len(filled) < 2 or len(set(filled)) < len(filled):
        return False
    if all(text.isdigit() for text in filled):
        numbers = sorted(int(text) for text in filled)
        dense = numbers[-1] - numbers[0] < 4 * len(numbers)
        return dense or bool(_IDS.search(name))
    return bool(_IDS.search(name)) and all(" " not in text for text in filled)


def _share(sample: Sequence[str], test: Callable[[str], bool]) -> float:
    return sum(test(text) for text in sample) / max(len(sample), 1)


def kinds_of(records: Records, told: Mapping[str, Kind | str] | None = None) -> dict[str, Kind]:
    """The kind of each column: as told, else guessed.

    A column that is the same in every row, or numbers the rows, is left out with a warning; if it was told to be
    compared, it is an error. So is a table of which nothing is left to compare.
    """
    given = {name: _told(name, kind) for name, kind in (told or {}).items()}
    for name in given:
        records.column(name)
    kinds, left = {}, []
    for name, column in zip(records.names, records.columns, strict=True):
        kinds[name] = given.get(name) or guess_kind(name, column)
        if name in given:
            _check_told(records, name, column, kinds[name])
        elif kinds[name] is Kind.IGNORE:
            left.append(name)
    if all(kind is Kind.IGNORE for kind in kinds.values()):
        raise ValueError(
            f"{records.source} has no column to compare: {listed(kinds)} are empty, the same in every row, "
            "different in every row, or told to be ignored; give a column of names, texts, numbers or dates"
        )
    if left:
        warn(
            f"{records.source}: {listed(left)} {'is' if len(left) == 1 else 'are'} not compared, being the same in "
            "every row, empty, or a number of the row; tell a kind to compare them",
            DataWarning,
        )
    return kinds


def _told(name: str, kind: Kind | str) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        raise ValueError(
            f"column {quoted(name)} cannot be of kind {quoted(kind)}; kinds are {', '.join(one.value for one in Kind)}"
        ) from None


def _check_told(records: Records, name: str, column: Sequence[str], kind: Kind) -> None:
    if kind is Kind.IGNORE:
        return
    filled = {value for value in column if value}
    if not filled or (len(filled) == 1 and all(column)):
        what = "empty" if not filled else "the same"
        raise ValueError(
            f"column {quoted(name)} of {records.source} is {what} in every row and compares nothing; drop it"
        )
    readers = {Kind.NUMBER: number_of, Kind.DATE: day_of, Kind.POINT: point_of}
    read = readers.get(kind)
    if read is not None and all(read(value) is None for value in filled):
        shown = quoted(next(iter(value for value in column if value)))
        raise ValueError(
            f"column {quoted(name)} of {records.source} has no {kind.value} in it (but {shown}); tell another kind"
        )
