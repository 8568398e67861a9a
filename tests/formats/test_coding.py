"""Columns as codes: numbers cut, what is missing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats.coding import Numbers
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
