"""Loops over whole arrays against NumPy."""

from __future__ import annotations

import numpy as np

from loopwise.compiled import arrays
from loopwise.compiled.decorators import kernel


@kernel
def everything(values, target):
    arrays.copy_into(target, values)
    arrays.fill(target[len(values) :], 7.0)
    return (
        arrays.filled(3, -1),
        arrays.counted(4),
        arrays.copied(values, 2),
        arrays.largest(values),
        arrays.total(values),
    )


def test_they_do_what_numpy_does() -> None:
    values, target = np.array([1.5, -2.0, 4.0]), np.zeros(5)
    filled, counted, copied, largest, total = everything(values, target)
    np.testing.assert_array_equal(target, [1.5, -2.0, 4.0, 7.0, 7.0])
    np.testing.assert_array_equal(filled, [-1, -1, -1])
    np.testing.assert_array_equal(counted, [0, 1, 2, 3])
    np.testing.assert_array_equal(copied, [1.5, -2.0])
    assert (largest, total) == (4.0, 3.5)


@kernel
def made(count):
    numbers, whole = arrays.floats(count), arrays.integers(count)
    for place in range(count):
        numbers[place], whole[place] = place / 2, place
    return numbers, whole, arrays.zeros(count)


def test_new_arrays() -> None:
    numbers, whole, zeros = made(3)
    assert (numbers.tolist(), whole.tolist(), zeros.tolist()) == ([0.0, 0.5, 1.0], [0, 1, 2], [0.0, 0.0, 0.0])
    assert (numbers.dtype, whole.dtype, zeros.dtype) == (np.float64, np.int64, np.float64)


def test_the_largest_of_what_is_not_a_number_is_not_a_number() -> None:
    for place in range(3):
        values = np.array([1.0, 2.0, 0.5])
        values[place] = np.nan
        assert np.isnan(everything(values, np.zeros(5))[3])
