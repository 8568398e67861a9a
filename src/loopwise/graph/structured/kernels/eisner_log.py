"""Eisner's program in the log domain: any scores, at the price of exponentials in the inner loop.

In: the flat charts of ``eisner_charts``, holding logs (the first matrix log weights). Out: the
other matrices. Below the stages. Tangents here are relative: the derivative of each logarithm.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.graph.structured.kernels.eisner_charts import (
    GRADIENT,
    INTO_LEFT,
    INTO_RIGHT,
    LEFT,
    MATRICES,
    OUT_INTO_LEFT,
    OUT_INTO_RIGHT,
    OUT_LEFT,
    OUT_RIGHT,
    OUT_SPLIT,
    RIGHT,
    SPLIT,
    WEIGHT,
    fill,
)

NEGLIGIBLE = -45.0  # nats: a term of a sum that is below its rounding
NOTHING = -745.0  # nats: an exponential that is 0


@callee
def log_add(a, b):
    """log(exp a + exp b)."""
    high, low = (a, b) if a > b else (b, a)
    return high if not low - high > NEGLIGIBLE else high + np.log1p(np.exp(low - high))  # also if both are -inf


@callee
def _log_dot(charts, first, first_step, second, second_step, count):
    """log sum exp(x + y) of two strided runs of the charts."""
    one, one_step, two, two_step = np.uint64(first), np.uint64(first_step), np.uint64(second), np.uint64(second_step)
    top, total = -np.inf, 0.0
    for step in range(np.uint64(count)):
        value = charts[one + step * one_step] + charts[two + step * two_step]
        top = value if value > top else top
    if top == -np.inf:
        return top
    for step in range(np.uint64(count)):
        value = charts[one + step * one_step] + charts[two + step * two_step] - top
        if value > NEGLIGIBLE:
            total += np.exp(value)
    return top + np.log(total)


@callee
def _mean_dot(charts, tangents, first, first_step, second, second_step, count, total):
    """The derivative of :func:`_log_dot` (a part of what ``total`` is the log of): terms weighted by their share."""
    one, one_step, two, two_step = np.uint64(first), np.uint64(first_step), np.uint64(second), np.uint64(second_step)
    mean = 0.0
    if total > -np.inf:
        for step in range(np.uint64(count)):
            a, b = one + step * one_step, two + step * two_step
            value = charts[a] + charts[b] - total
            if value > NOTHING:
                mean += np.exp(value) * (tangents[a] + tangents[b])
    return mean


@callee
def _most(charts, first, first_step, second, second_step, count):
    """The largest x + y of two strided runs of the charts."""
    top = -np.inf
    for step in range(np.uint64(count)):
        at = np.uint64(first) + step * np.uint64(first_step)
        top = max(top, charts[at] + charts[np.uint64(second) + step * np.uint64(second_step)])
    return top


@callee
def _dot(charts, first, first_step, second, second_step, count, semiring):
    """The best, or the sum, of what two runs of the charts make together."""
    if len(semiring) == 3:
        return _most(charts, first, first_step, second, second_step, count)
    return _log_dot(charts, first, first_step, second, second_step, count)


@kernel
def inside_log(charts, n, single_root, semiring):
    """Fills the inside matrices, shortest spans first; log Z (``LOG_SUM``) or the best score (``LOG_MAX``). O(n^3)."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(charts, size, SPLIT, OUT_RIGHT, -np.inf)
    first = 1 if single_root else 0
    for i in range(first, m):
        charts[RIGHT * size + i * m + i] = charts[LEFT * size + i * m + i] = 0.0
    for width in range(1, m - first):
        for i in range(first, m - width):
            j = i + width
            at, row, column = i * m + j, i * m + i, (i + 1) * m + j
            split = _dot(charts, RIGHT * size + row, 1, LEFT * size + column, m, width, semiring)
            charts[SPLIT * size + at] = split
            charts[INTO_RIGHT * size + at] = charts[WEIGHT * size + at] + split
            charts[RIGHT * size + at] = _dot(
                charts, INTO_RIGHT * size + row + 1, 1, RIGHT * size + column, m, width, semiring
            )
            if i > 0:
                charts[INTO_LEFT * size + at] = charts[WEIGHT * size + j * m + i] + split
                charts[LEFT * size + at] = _dot(charts, LEFT * size + row, 1, INTO_LEFT * size + at, m, width, semiring)
    if not single_root:
        return charts[RIGHT * size + n]
    total = -np.inf
    for r in range(1, m):
        root = charts[WEIGHT * size + r] + charts[LEFT * size + m + r] + charts[RIGHT * size + r * m + n]
        total = max(total, root) if len(semiring) == 3 else log_add(total, root)
    return total


@kernel
def outside_log(charts, n, single_root):
    """Fills the outside matrices and ``GRADIENT``, log dZ/dw, longest spans first."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(charts, size, OUT_RIGHT, MATRICES, -np.inf)
    first = 1 if single_root else 0
    for width in range(n - first, 0, -1):
        for i in range(first, m - width):
            j = i + width
            at, mirrored = i * m + j, j * m + i
            after, before = (j + 1) * m + j + 1, first * m
            right = log_add(
                _log_dot(charts, OUT_SPLIT * size + at + 1, 1, LEFT * size + after, 1, n - j),
                _log_dot(charts, OUT_RIGHT * size + before + j, m, INTO_RIGHT * size + before + i, m, i - first),
            )
            if j == n:
                root = charts[WEIGHT * size + i] + charts[LEFT * size + m + i] if single_root else 0.0
                if single_root or i == 0:
                    right = log_add(right, root)
            charts[OUT_RIGHT * size + at] = right
            if i > 0:
                left = log_add(
                    _log_dot(charts, OUT_SPLIT * size + before + j, m, RIGHT * size + before + i - 1, m, i - first),
                    _log_dot(charts, OUT_LEFT * size + at + 1, 1, INTO_LEFT * size + after - m, 1, n - j),
                )
                if single_root and i == 1:
                    left = log_add(left, charts[WEIGHT * size + j] + charts[RIGHT * size + j * m + n])
                charts[OUT_LEFT * size + at] = left
            split = charts[SPLIT * size + at]
            to_right = _log_dot(charts, OUT_RIGHT * size + at, 1, RIGHT * size + j * m + j, 1, n - j + 1)
            charts[OUT_INTO_RIGHT * size + at] = to_right
            charts[GRADIENT * size + at] = to_right + split
            charts[OUT_SPLIT * size + at] = charts[WEIGHT * size + at] + to_right
            if i > 0:
                to_left = _log_dot(charts, OUT_LEFT * size + m + j, m, LEFT * size + m + i, m, i)
                charts[OUT_INTO_LEFT * size + at] = to_left
                charts[GRADIENT * size + mirrored] = to_left + split
                charts[OUT_SPLIT * size + at] = log_add(
                    charts[OUT_SPLIT * size + at], charts[WEIGHT * size + mirrored] + to_left
                )
    if single_root:
        for r in range(1, m):
            charts[GRADIENT * size + r] = charts[LEFT * size + m + r] + charts[RIGHT * size + r * m + n]


@callee
def inside_log_tangent(charts, tangents, n, single_root):
    """Derivatives of the inside logs along ``tangents[WEIGHT]``, a direction in which log weights move."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(tangents, size, SPLIT, OUT_RIGHT, 0.0)
    first = 1 if single_root else 0
    for width in range(1, n + 1 - first):
        for i in range(first, m - width):
            j = i + width
            at, row, column = i * m + j, i * m + i, (i + 1) * m + j
            total = charts[SPLIT * size + at]
            split = _mean_dot(charts, tangents, RIGHT * size + row, 1, LEFT * size + column, m, width, total)
            tangents[SPLIT * size + at] = split
            tangents[INTO_RIGHT * size + at] = tangents[WEIGHT * size + at] + split
            tangents[RIGHT * size + at] = _mean_dot(
                charts, tangents, INTO_RIGHT * size + row + 1, 1, RIGHT * size + column, m, width,
                charts[RIGHT * size + at],
            )  # fmt: skip
            if i > 0:
                tangents[INTO_LEFT * size + at] = tangents[WEIGHT * size + j * m + i] + split
                tangents[LEFT * size + at] = _mean_dot(
                    charts, tangents, LEFT * size + row, 1, INTO_LEFT * size + i * m + j, m, width,
                    charts[LEFT * size + at],
                )  # fmt: skip


@callee
def _share(charts, tangents, first, second, total):
    """One term of a mean: the share of exp(charts[first] + charts[second]) in exp(total) times its derivative."""
    value = charts[first] + charts[second]
    return np.exp(value - total) * (tangents[first] + tangents[second]) if value > -np.inf else 0.0


@callee
def _complete_tangent(charts, tangents, n, single_root, i, j):
    """Derivatives of ``OUT_RIGHT`` and ``OUT_LEFT`` of one span."""
    m, size = n + 1, (n + 1) * (n + 1)
    first = 1 if single_root else 0
    at, after, before = i * m + j, (j + 1) * m + j + 1, first * m
    total = charts[OUT_RIGHT * size + at]
    moved = _mean_dot(charts, tangents, OUT_SPLIT * size + at + 1, 1, LEFT * size + after, 1, n - j, total)
    moved += _mean_dot(
        charts, tangents, OUT_RIGHT * size + before + j, m, INTO_RIGHT * size + before + i, m, i - first, total
    )
    if single_root and j == n:
        moved += _share(charts, tangents, WEIGHT * size + i, LEFT * size + m + i, total)
    tangents[OUT_RIGHT * size + at] = moved
    if i > 0:
        total = charts[OUT_LEFT * size + at]
        moved = _mean_dot(
            charts, tangents, OUT_SPLIT * size + before + j, m, RIGHT * size + before + i - 1, m, i - first, total
        )
        moved += _mean_dot(charts, tangents, OUT_LEFT * size + at + 1, 1, INTO_LEFT * size + after - m, 1, n - j, total)
        if single_root and i == 1:
            moved += _share(charts, tangents, WEIGHT * size + j, RIGHT * size + j * m + n, total)
        tangents[OUT_LEFT * size + at] = moved


@callee
def outside_log_tangent(charts, tangents, n, single_root):
    """Derivatives of the outside logs and of ``GRADIENT``, after :func:`inside_log_tangent`."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(tangents, size, OUT_RIGHT, MATRICES, 0.0)
    first = 1 if single_root else 0
    for width in range(n - first, 0, -1):
        for i in range(first, m - width):
            j = i + width
            at, mirrored = i * m + j, j * m + i
            _complete_tangent(charts, tangents, n, single_root, i, j)
            moved = _mean_dot(
                charts, tangents, OUT_RIGHT * size + at, 1, RIGHT * size + j * m + j, 1, n - j + 1,
                charts[OUT_INTO_RIGHT * size + at],
            )  # fmt: skip
            tangents[OUT_INTO_RIGHT * size + at] = moved
            tangents[GRADIENT * size + at] = moved + tangents[SPLIT * size + at]
            total = charts[OUT_SPLIT * size + at]
            split = _share(charts, tangents, WEIGHT * size + at, OUT_INTO_RIGHT * size + at, total)
            if i > 0:
                moved = _mean_dot(
                    charts, tangents, OUT_LEFT * size + m + j, m, LEFT * size + m + i, m, i,
                    charts[OUT_INTO_LEFT * size + at],
                )  # fmt: skip
                tangents[OUT_INTO_LEFT * size + at] = moved
                tangents[GRADIENT * size + mirrored] = moved + tangents[SPLIT * size + at]
                split += _share(charts, tangents, WEIGHT * size + mirrored, OUT_INTO_LEFT * size + at, total)
            tangents[OUT_SPLIT * size + at] = split
    if single_root:
        for r in range(1, m):
            tangents[GRADIENT * size + r] = tangents[LEFT * size + m + r] + tangents[RIGHT * size + r * m + n]
