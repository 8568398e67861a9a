"""The rows of a hashed table of weights that a batch of parts reads: found once, summed into once.

In: which rows the features of each part read. Out: the distinct rows and where each feature's stands among them; sums
of the adjoints of parts for each. Stage: below learning. A range of the table is dealt with by one thread alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import kernel, spliced
from loopwise.compiled.prefetch import AHEAD, prefetch
from loopwise.learn.kernels.comid import pay


@spliced
def range_of(row, size, ranges):
    """Which of ``ranges`` equal parts of a table a row is in."""
    return np.int64(row * (ranges / size))


@kernel
def split_rows(index, start, size, ranges):
    """The features of each range of the table, in their order: ``rows``, range after range, from ``first[r]`` on; and
    where those of each part begin among them, ``starts[r, part]``. A range is dealt with by one thread alone."""
    counts, first = np.zeros(ranges, np.int64), np.zeros(ranges + 1, np.int64)
    for place in range(len(index)):
        counts[range_of(index[place], size, ranges)] += 1
    first[1:] = np.cumsum(counts)
    rows, starts, at = np.empty(len(index), np.int32), np.zeros((ranges, len(start)), np.int64), first[:-1].copy()
    for part in range(len(start) - 1):
        for place in range(start[part], start[part + 1]):
            of = range_of(index[place], size, ranges)
            rows[at[of]] = index[place]
            at[of] += 1
        starts[:, part + 1] = at - first[:-1]
    return rows, first, starts


@kernel
def join_positions(index, size, positions, first):
    """Positions of the features in their own order, from those that stand range after range."""
    at, joined = first[:-1].copy(), np.empty(len(index), np.int32)
    for place in range(len(index)):
        of = range_of(index[place], size, len(first) - 1)
        joined[place] = positions[at[of]]
        at[of] += 1
    return joined


class DuePenalty(NamedTuple):
    """Up to which step regularisation is to be paid, and how that goes."""

    steps: int
    rate: float
    delta: float
    l2: float


@kernel
def find_rows(index, offset, table, due, found, count, position, out):
    """Rows of ``index`` that are not among ``found[:count]`` are added; ``position[k]`` says where ``index[k]`` stands,
    plus ``offset``, and ``out`` holds its weight there, regularisation paid. The new count.

    ``table``: weights, squares, steps of the last update, marks. A mark says where among ``found`` a row may be;
    whether it is there is seen from ``found`` itself (a sparse set: nothing has to be cleared).
    """
    weights, squares, last, marks = table
    for place in range(len(index)):
        if place + AHEAD < len(index):
            prefetch(marks, index[place + AHEAD])
        row = np.int64(index[place])
        slot = np.int64(marks[row])
        if slot >= count or found[slot] != row:
            slot = np.int64(count)
            marks[row], found[slot] = slot, row
            count += 1
            pay(weights, squares, last, row, due.steps, due.rate, due.delta, 0.0, due.l2)
            out[offset + slot] = weights[row, 0]
        position[place] = offset + slot
    return count


@kernel
def scatter_parts(adjoint, start, position, offset, sums):
    """Adds each part's adjoint to the sums of its weights, the first of which stands at ``offset``."""
    for part in range(len(adjoint)):
        value = adjoint[part]
        if value != 0.0:
            for place in range(start[part], start[part + 1]):
                sums[position[place] - offset, 0] += value


@kernel
def sum_parts(start, position, weights):
    """The score of each part: the sum of the weights of its features."""
    scores = np.empty(len(start) - 1)
    for part in range(len(scores)):
        total = 0.0
        for place in range(start[part], start[part + 1]):
            total += weights[position[place]]
        scores[part] = total
    return scores
