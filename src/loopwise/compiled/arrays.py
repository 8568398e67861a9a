"""Small loops over whole arrays, for kernels.

NumPy's own functions do the same, but compile for longer than many a kernel: they bring every case of broadcasting
along, and the sentences of its errors. These know one case each.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee


@callee
def fill(values, value):
    """Set all of a one-dimensional array."""
    for place in range(len(values)):
        values[place] = value


@callee
def copy_into(target, source):
    """Copy a one-dimensional array into the beginning of another."""
    for place in range(len(source)):
        target[place] = source[place]


@callee
def floats(count):
    """So many numbers, with anything in them. NumPy's function is compiled anew for every constant it is given."""
    return np.empty(count)


@callee
def integers(count):
    """So many integers, with anything in them."""
    return np.empty(count, np.int64)


@callee
def zeros(count):
    """So many zeros."""
    values = np.empty(count)
    for place in range(count):
        values[place] = 0.0
    return values


@callee
def filled(count, value):
    """So many integers of one value."""
    values = np.empty(count, dtype=np.int64)
    for place in range(count):
        values[place] = value
    return values


@callee
def counted(count):
    """The integers from 0, so many."""
    values = np.empty(count, dtype=np.int64)
    for place in range(count):
        values[place] = place
    return values


@callee
def copied(values, count):
    """A copy of the first ``count`` of a one-dimensional array."""
    copy = np.empty(count, dtype=values.dtype)
    for place in range(count):
        copy[place] = values[place]
    return copy


@callee
def largest(values):
    """The largest of a one-dimensional array that is not empty; not a number if one of them is not."""
    result = values[0]
    for place in range(1, len(values)):
        if values[place] > result or values[place] != values[place]:
            result = values[place]
    return result


@callee
def total(values):
    """The sum of a one-dimensional array."""
    result = values.dtype.type(0)
    for place in range(len(values)):
        result += values[place]
    return result
