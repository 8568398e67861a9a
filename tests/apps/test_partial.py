"""Labels that are not known, or known in part, in all the ways in which people write them."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.partial import choices_of, is_unknown


@pytest.mark.parametrize(
    "label", [None, np.nan, float("nan"), np.float32("nan"), -1, -1.0, np.int8(-1), np.float64(-1)]
)
def test_not_known(label: object) -> None:
    assert is_unknown(label)


@pytest.mark.parametrize(
    "label", [0, 1, -2, "", "O", "-1", b"-1", True, False, np.int64(3), np.float64(0.5), {"A"}, set()]
)
def test_known(label: object) -> None:
    assert not is_unknown(label)


def test_missing_values_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    assert is_unknown(pandas.NA) and is_unknown(pandas.NaT)


def test_sets_are_choices_and_lists_are_not() -> None:
    assert choices_of({"A", "B"}) == {"A", "B"} and choices_of(frozenset("A")) == {"A"}
    assert choices_of(["A", "B"]) is None and choices_of("A") is None
