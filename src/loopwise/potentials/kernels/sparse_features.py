"""Compiled sums over sparse features: scores of rows, and what their adjoints mean for the weights.

In: features of rows in compressed form (row ``r`` has features ``index[start[r]:start[r + 1]]``), a weight table. Out:
scores; touched weights and the sums of their adjoints. Stage: below numbers. ``value`` is empty where all features
have the value 1; ``columns`` says which column of the weights a cell reads, -1 for none. Sums are carried in double
precision whatever the weights are kept in.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import kernel

_FIBONACCI = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: spreads neighbouring keys (Knuth, vol. 3, 6.4)


@kernel
def gather_sum(weights, start, index, value, columns, out):
    """``out[r, cell] = sum_k value[k] weights[index[k], columns[cell]]``; O(features of the row) a row."""
    width, weighted = weights.shape[1], len(value) > 0
    total = np.empty(width, np.float64)
    for row in range(len(start) - 1):
        total[:] = 0.0
        for place in range(start[row], start[row + 1]):
            feature = index[place]
            scale = value[place] if weighted else 1.0
            for column in range(width):
                total[column] += scale * weights[feature, column]
        for cell in range(len(columns)):
            out[row, cell] = total[columns[cell]] if columns[cell] >= 0 else 0.0


@kernel
def distinct(index):
    """The distinct numbers of ``index`` in order of appearance, and where each entry's number stands among them.

    Open addressing with linear probing at most half full: O(entries), whatever the largest number is.
    """
    bits = 1
    while (1 << bits) < 2 * len(index):
        bits += 1
    shift, mask = np.uint64(64 - bits), (1 << bits) - 1
    slots = np.full(1 << bits, -1, np.int64)
    found, position = np.empty(len(index), np.int64), np.empty(len(index), np.int64)
    count = 0
    for place in range(len(index)):
        number = np.int64(index[place])
        slot = np.int64((np.uint64(number) * _FIBONACCI) >> shift)
        while slots[slot] >= 0 and found[slots[slot]] != number:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            found[count] = number
            count += 1
        position[place] = slots[slot]
    return found[:count].copy(), position


@kernel
def scatter_sum(adjoint, start, position, value, columns, sums):
    """The transpose of :func:`gather_sum`: adds ``value[k] adjoint[r, cell]`` to ``sums[position[k], columns[cell]]``.

    One thread: the order of the additions, and so the rounding, is always the same.
    """
    width, weighted = sums.shape[1], len(value) > 0
    total = np.empty(width, np.float64)
    for row in range(len(start) - 1):
        total[:] = 0.0
        for cell in range(len(columns)):
            if columns[cell] >= 0:
                total[columns[cell]] += adjoint[row, cell]
        for place in range(start[row], start[row + 1]):
            scale = value[place] if weighted else 1.0
            for column in range(width):
                sums[position[place], column] += scale * total[column]
