"""What decoders are given: numbers pass, everything else gets one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwise.arguments import checked_array, checked_kind, checked_number, checked_part, checked_whole


def test_what_fits_passes() -> None:
    assert checked_whole("legs", np.int32(0), 0) == 0
    assert checked_number("rate", np.float32(0.5)) == 0.5 and checked_number("offset", 0, above=False) == 0.0
    assert checked_array("bits", [[True, False]]).dtype == bool
    checked_kind("legs", [1], (list, type(None)), "a list")


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_what_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="sweeps must be a whole number of at least 1, not "):
        checked_whole("sweeps", value)


@pytest.mark.parametrize("value", [0, -0.5, float("nan"), float("inf"), "a", None, 1j])
def test_what_is_no_number_above_0_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="rate must be a number above 0, not "):
        checked_number("rate", value)


def test_what_is_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="rule must be a rule, not 'min'"):
        checked_kind("rule", "min", int, "a rule")
    with pytest.raises(ValueError, match="rule must be a rule, not the class int itself"):
        checked_kind("rule", int, int, "a rule")
    checked_part("text", "a", "upper", "'b'")
    with pytest.raises(ValueError, match="text must be an object such as 'b', not 3"):
        checked_part("text", 3, "upper", "'b'")
    with pytest.raises(ValueError, match="text must be an object such as 'b', not the class str itself"):
        checked_part("text", str, "upper", "'b'")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([[1, 0], [1]], "the matrix has rows of different lengths"),
        ([["1", "0"]], "the matrix must hold numbers, not text"),
        ([1j], "the matrix must hold numbers, not complex numbers"),
        (None, "the matrix must hold numbers, not NoneType"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        checked_array("the matrix", given)
