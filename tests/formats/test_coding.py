"""Columns as codes: numbers cut, what is missing."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats.coding import Dates, Numbers, Texts, Truths, as_numbers, as_texts, codes_of, column_of
from loopwise.graph.evidence import FREE

NUMBERS = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(np.nan)), min_size=1, max_size=60)


@given(NUMBERS, st.integers(2, 9))
def test_numbers_are_cut_in_order(cells: list[float], bins: int) -> None:
    column = np.array(cells)
    made = Numbers.of(column, bins)
    codes = made.codes(column)
    assert len(made.labels) == len(made.cuts) + 1 <= bins and len(set(made.labels)) == len(made.labels)
    np.testing.assert_array_equal(codes == FREE, np.isnan(column))
    known = column[~np.isnan(column)]
    order = np.argsort(known, kind="stable")
    assert (np.diff(codes[~np.isnan(column)][order]) >= 0).all()
    if 0 < len(np.unique(known)) <= bins:
        assert len(np.unique(codes[codes != FREE])) == len(np.unique(known)) == len(made.labels)
    elif len(known):
        assert set(codes[codes != FREE]) == set(range(len(made.labels)))  # no interval is empty


def test_numbers_never_seen_and_equal_shares() -> None:
    few = Numbers.of(np.array([0.0, 1.0, 4.0]), 8)
    assert few.labels == ("0", "1", "4") and few.codes(np.array([-9.0, 0.4, 2.4, 2.6, 99.0])).tolist() == [
        0,
        0,
        1,
        2,
        2,
    ]
    many = Numbers.of(np.random.default_rng(0).normal(size=1000), 5)
    counts = np.bincount(many.codes(np.random.default_rng(0).normal(size=1000)))
    assert len(counts) == 5 and counts.min() > 190
    heavy = Numbers.of(np.array([0.0] * 90 + list(range(1, 11))), 4)
    assert set(heavy.codes(np.array([0.0] * 90 + list(range(1, 11))))) == set(range(len(heavy.labels)))


def test_truth_values_are_a_kind_of_column() -> None:
    column = column_of("flag", [True, None, np.False_])
    assert type(column) is Truths and column.labels == ("False", "True")
    assert column.codes(column.numbers(["True", "false", 1, False, None])).tolist() == [1, 0, 1, 0, -1]
    assert Truths.numbers(["maybe"]) is None
    assert codes_of(column.labels, [True, "true", "0", np.nan])[0].tolist() == [1, 1, 0, -1]
    assert type(column_of("flag", [True, 2.0])) is Numbers and type(column_of("flag", [1, 0])) is Numbers
    assert type(column_of("flag", ["True", "False"])) is Texts  # of a file, with the same labels


def test_a_label_of_another_spelling_is_the_label() -> None:
    """What a data frame writes as 1.0 where cells are missing is the label 1, but no other number is."""
    found, lost = codes_of(("0", "1"), ["1.0", "1.2", "0", "", "x"], nearest=False)
    assert found.tolist() == [1, -1, 0, -1, -1] and lost == [1, 4]


def test_cells_of_one_type_are_read_as_mixed_ones_are() -> None:
    cells = [1, None, 2.5, True]
    np.testing.assert_array_equal(as_numbers(cells), as_numbers([np.float64(1), None, np.float32(2.5), np.True_]))
    np.testing.assert_array_equal(as_numbers([Decimal("1.5"), None, Decimal("NaN")]), [1.5, np.nan, np.nan])
    assert as_numbers([1, "1"]) is None and as_texts(["a", "", None]) == as_texts(["a", np.nan, None])


def test_dates_in_the_type_of_others() -> None:
    zone = datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert Dates.like(zone, "2024-03-02T12:00:00") == datetime(2024, 3, 2, 12, tzinfo=timezone.utc)
    assert Dates.like(date.min, "2024-03-02") == date(2024, 3, 2)
    assert Dates.like(np.datetime64("2024-01-01", "h"), "2024-03-02") == np.datetime64("2024-03-02T00", "h")
    with pytest.raises(ValueError, match="bins must be a number from 2 to 1000, not '6'"):
        column_of("size", [1.0], "6")  # type: ignore[arg-type]
