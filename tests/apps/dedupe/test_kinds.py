"""Kinds of columns are guessed, cells are read."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe.kinds import Kind, day_of, days_of, elements_of, guess_kind, number_of, point_of


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("id", [str(n) for n in range(50)], Kind.IGNORE),
        ("x", ["same"] * 9, Kind.IGNORE),
        ("empty", [""] * 9, Kind.IGNORE),
        ("person_id", ["2909", "35740", "911235", "7"], Kind.IGNORE),
        ("price", ["$4.50", "7", "1,200"], Kind.NUMBER),
        ("Preis", ["4,50 €", "7,25 €", "1.200,00 €"], Kind.NUMBER),
        ("dob", ["19800131", "19751201"], Kind.DATE),
        ("Phone", ["3865286", "555 1212"], Kind.PHONE),
        ("postcode", ["2600", "4810", "3150", "2600"], Kind.PHONE),
        ("where", ["1.5,2.5", "-3.5,4.5"], Kind.POINT),
        ("authors", ["A B**C D", "E F**G", "H**I"], Kind.SET),
        ("sex", ["m", "f"] * 20, Kind.CATEGORY),
        ("surname", ["Smith", "Jones", "Lee"], Kind.NAME),
        ("street", ["4 High St", "9 Low Rd"], Kind.PLACE),
        ("description", ["a long text with many words in it", "another of these texts here"], Kind.TEXT),
    ],
)
def test_kinds_are_guessed(name: str, values: list[str], kind: Kind) -> None:
    assert guess_kind(name, values) is kind


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("-3.5", -3.5), ("1e3", 1000.0), ("12%", 12.0), ("12,50", 12.5), ("-1.234,5 €", -1234.5), ("1,234", 1234.0)],
        *[(text, None) for text in ("x", "", "1.2.3", "1e999", "12 b", "1,2,3")],
    ],
)
def test_numbers_are_read(text: str, number: float | None) -> None:
    assert number_of(text) == number


def test_a_column_of_dates_has_one_order() -> None:
    american = days_of(["01/31/1999", "02/01/1999", "1999-02-02", "soon"])
    assert np.diff(american[:3]).tolist() == [1, 1] and american[3] is None
    assert np.diff(days_of(["31/01/1999", "01/02/1999"])).tolist() == [1]
    assert days_of(["03/04/1999"]) == [day_of("1999-04-03")]


def test_cells_are_read() -> None:
    assert day_of("2000-02-30") is None and day_of("12/31/1999") == day_of("1999-12-31")
    assert point_of("(91.0, 2.0)") is None and elements_of("a, b") == ["a", "b"]
