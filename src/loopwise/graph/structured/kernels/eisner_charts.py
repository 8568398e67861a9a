"""Eisner's program as flat charts, in the probability domain: inside, outside, and their directional derivative.

In: a flat buffer ``charts`` of :data:`MATRICES` matrices ``[n + 1, n + 1]`` whose first holds edge weights
(head, modifier). Out: the other matrices. Below the stages; ``eisner`` chooses the domain.

Items over 0 <= i < j <= n (spec of the parser, section 3): ``SPLIT`` S = sum_r R[i,r] L[r+1,j]; incomplete
``INTO_RIGHT`` = w[i,j] S (edge i to j) and ``INTO_LEFT`` = w[j,i] S (edge j to i); complete ``RIGHT`` R (headed by i)
and ``LEFT`` L (headed by j). Their derivatives of Z carry ``OUT_``. All loops run along rows, so that they vectorise.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee

WEIGHT, SPLIT, RIGHT, LEFT, INTO_RIGHT, INTO_LEFT = 0, 1, 2, 3, 4, 5
OUT_RIGHT, OUT_LEFT, OUT_INTO_RIGHT, OUT_INTO_LEFT, OUT_SPLIT, GRADIENT = 6, 7, 8, 9, 10, 11
MATRICES = 12


# Rows are short (half the sentence on average), so four cells at a time are written out by hand: the vectoriser would
# take sixteen and leave most rows to its scalar remainder. Unsigned indices: one that might be negative costs a test.
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@callee
def _add(charts, target, scale, source, count):
    to, by, end = np.uint64(target), np.uint64(source), np.uint64(target + count)
    while to + _FOUR <= end:
        a = charts[to] + scale * charts[by]
        b = charts[to + _ONE] + scale * charts[by + _ONE]
        c = charts[to + _TWO] + scale * charts[by + _TWO]
        d = charts[to + _THREE] + scale * charts[by + _THREE]
        charts[to], charts[to + _ONE], charts[to + _TWO], charts[to + _THREE] = a, b, c, d
        to += _FOUR
        by += _FOUR
    while to < end:
        charts[to] += scale * charts[by]
        to += _ONE
        by += _ONE


@callee(fastmath={"reassoc", "contract"})
def _share(charts, given, factor, target, scale, count):
    """What the adjoint of :func:`_add` leaves: the products of a row ``given`` with ``factor``, summed, and the row
    times ``scale``, added to ``target``. One pass: the row is read once."""
    by, one, to, end = np.uint64(given), np.uint64(factor), np.uint64(target), np.uint64(given + count)
    p = q = r = s = 0.0
    while by + _FOUR <= end:
        a, b, c, d = charts[by], charts[by + _ONE], charts[by + _TWO], charts[by + _THREE]
        p += a * charts[one]
        q += b * charts[one + _ONE]
        r += c * charts[one + _TWO]
        s += d * charts[one + _THREE]
        a, b = charts[to] + scale * a, charts[to + _ONE] + scale * b
        c, d = charts[to + _TWO] + scale * c, charts[to + _THREE] + scale * d
        charts[to], charts[to + _ONE], charts[to + _TWO], charts[to + _THREE] = a, b, c, d
        by += _FOUR
        one += _FOUR
        to += _FOUR
    total = (p + q) + (r + s)
    while by < end:
        total += charts[by] * charts[one]
        charts[to] += scale * charts[by]
        by += _ONE
        one += _ONE
        to += _ONE
    return total


@callee
def _add_tangent(charts, tangents, target, scale, source, count):
    """The derivative of :func:`_add`; ``scale`` is the place of the scalar."""
    value, moved = charts[scale], tangents[scale]
    to, by, end = np.uint64(target), np.uint64(source), np.uint64(target + count)
    while to + _FOUR <= end:
        a = tangents[to] + (moved * charts[by] + value * tangents[by])
        b = tangents[to + _ONE] + (moved * charts[by + _ONE] + value * tangents[by + _ONE])
        c = tangents[to + _TWO] + (moved * charts[by + _TWO] + value * tangents[by + _TWO])
        d = tangents[to + _THREE] + (moved * charts[by + _THREE] + value * tangents[by + _THREE])
        tangents[to], tangents[to + _ONE], tangents[to + _TWO], tangents[to + _THREE] = a, b, c, d
        to += _FOUR
        by += _FOUR
    while to < end:
        tangents[to] += moved * charts[by] + value * tangents[by]
        to += _ONE
        by += _ONE


@callee(fastmath={"reassoc", "contract"})
def _share_tangent(charts, tangents, given, factor, target, scale, count):
    """The derivative of :func:`_share`; ``scale`` is the place of the scalar."""
    value, moved = charts[scale], tangents[scale]
    by, one, to, end = np.uint64(given), np.uint64(factor), np.uint64(target), np.uint64(given + count)
    p = q = r = s = 0.0
    while by + _FOUR <= end:
        a, b, c, d = charts[by], charts[by + _ONE], charts[by + _TWO], charts[by + _THREE]
        e, f, g, h = tangents[by], tangents[by + _ONE], tangents[by + _TWO], tangents[by + _THREE]
        p += e * charts[one] + a * tangents[one]
        q += f * charts[one + _ONE] + b * tangents[one + _ONE]
        r += g * charts[one + _TWO] + c * tangents[one + _TWO]
        s += h * charts[one + _THREE] + d * tangents[one + _THREE]
        a, b = tangents[to] + (moved * a + value * e), tangents[to + _ONE] + (moved * b + value * f)
        c, d = tangents[to + _TWO] + (moved * c + value * g), tangents[to + _THREE] + (moved * d + value * h)
        tangents[to], tangents[to + _ONE], tangents[to + _TWO], tangents[to + _THREE] = a, b, c, d
        by += _FOUR
        one += _FOUR
        to += _FOUR
    total = (p + q) + (r + s)
    while by < end:
        total += tangents[by] * charts[one] + charts[by] * tangents[one]
        tangents[to] += moved * charts[by] + value * tangents[by]
        by += _ONE
        one += _ONE
        to += _ONE
    return total


@callee
def fill(charts, size, first, end, value):
    """Sets the matrices ``first`` to ``end`` - 1, each of ``size`` cells."""
    for place in range(np.uint64(first * size), np.uint64(end * size)):
        charts[place] = value


@callee
def inside(charts, n, single_root):
    """Fills the inside matrices; Z. Row i needs only rows below it, so rows go from n up. O(n^3)."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(charts, size, SPLIT, OUT_RIGHT, 0.0)
    for i in range(n, 0 if single_root else -1, -1):
        row = i * m
        charts[RIGHT * size + row + i] = charts[LEFT * size + row + i] = 1.0
        for k in range(i, n):
            below, at = (k + 1) * m + k + 1, row + k + 1
            _add(charts, SPLIT * size + at, charts[RIGHT * size + row + k], LEFT * size + below, n - k)
            split = charts[SPLIT * size + at]
            charts[INTO_RIGHT * size + at] = charts[WEIGHT * size + at] * split
            charts[INTO_LEFT * size + at] = charts[WEIGHT * size + (k + 1) * m + i] * split
            _add(charts, RIGHT * size + at, charts[INTO_RIGHT * size + at], RIGHT * size + below, n - k)
        if i > 0:
            for r in range(i, n):
                left = LEFT * size + row + r
                _add(charts, left + 1, charts[left], INTO_LEFT * size + r * m + r + 1, n - r)
    if not single_root:
        return charts[RIGHT * size + n]
    total = 0.0
    for r in range(1, m):
        total += charts[WEIGHT * size + r] * charts[LEFT * size + m + r] * charts[RIGHT * size + r * m + n]
    return total


@callee
def outside(charts, n, single_root):
    """Fills the outside matrices and ``GRADIENT``, dZ/dw, also for edges of weight 0: :func:`inside` in reverse."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(charts, size, OUT_RIGHT, MATRICES, 0.0)
    if single_root:
        for r in range(1, m):
            left, right = charts[LEFT * size + m + r], charts[RIGHT * size + r * m + n]
            charts[GRADIENT * size + r] = left * right
            charts[OUT_LEFT * size + m + r] += charts[WEIGHT * size + r] * right
            charts[OUT_RIGHT * size + r * m + n] += charts[WEIGHT * size + r] * left
    else:
        charts[OUT_RIGHT * size + n] = 1.0
    for i in range(1 if single_root else 0, m):
        row = i * m
        if i > 0:
            for r in range(n - 1, i - 1, -1):
                out, into = OUT_LEFT * size + row + r, r * m + r + 1
                left = charts[LEFT * size + row + r]
                charts[out] += _share(
                    charts, out + 1, INTO_LEFT * size + into, OUT_INTO_LEFT * size + into, left, n - r
                )
        for k in range(n - 1, i - 1, -1):
            below, at, mirrored = (k + 1) * m + k + 1, row + k + 1, (k + 1) * m + i
            into_right, right = charts[INTO_RIGHT * size + at], charts[RIGHT * size + at - 1]
            to_right = _share(
                charts, OUT_RIGHT * size + at, RIGHT * size + below, OUT_RIGHT * size + below, into_right, n - k
            )
            to_left, split = charts[OUT_INTO_LEFT * size + at], charts[SPLIT * size + at]
            charts[OUT_INTO_RIGHT * size + at] = to_right
            charts[GRADIENT * size + at] = to_right * split
            charts[OUT_SPLIT * size + at] = to_right * charts[WEIGHT * size + at]
            if i > 0:
                charts[GRADIENT * size + mirrored] = to_left * split
                charts[OUT_SPLIT * size + at] += to_left * charts[WEIGHT * size + mirrored]
            charts[OUT_RIGHT * size + at - 1] += _share(
                charts, OUT_SPLIT * size + at, LEFT * size + below, OUT_LEFT * size + below, right, n - k
            )


@callee
def inside_tangent(charts, tangents, n, single_root):
    """Derivatives of the inside matrices along ``tangents[WEIGHT]``, a direction in which weights move."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(tangents, size, SPLIT, OUT_RIGHT, 0.0)
    for i in range(n, 0 if single_root else -1, -1):
        row = i * m
        for k in range(i, n):
            below, at, mirrored = (k + 1) * m + k + 1, row + k + 1, (k + 1) * m + i
            _add_tangent(charts, tangents, SPLIT * size + at, RIGHT * size + row + k, LEFT * size + below, n - k)
            split, moved = charts[SPLIT * size + at], tangents[SPLIT * size + at]
            weight, left_weight = WEIGHT * size + at, WEIGHT * size + mirrored
            tangents[INTO_RIGHT * size + at] = tangents[weight] * split + charts[weight] * moved
            tangents[INTO_LEFT * size + at] = tangents[left_weight] * split + charts[left_weight] * moved
            _add_tangent(charts, tangents, RIGHT * size + at, INTO_RIGHT * size + at, RIGHT * size + below, n - k)
        if i > 0:
            for r in range(i, n):
                left = LEFT * size + row + r
                _add_tangent(charts, tangents, left + 1, left, INTO_LEFT * size + r * m + r + 1, n - r)


@callee
def _root_tangent(charts, tangents, n):
    m, size = n + 1, (n + 1) * (n + 1)
    for r in range(1, m):
        weight, left, right = WEIGHT * size + r, LEFT * size + m + r, RIGHT * size + r * m + n
        tangents[GRADIENT * size + r] = tangents[left] * charts[right] + charts[left] * tangents[right]
        tangents[OUT_LEFT * size + m + r] += tangents[weight] * charts[right] + charts[weight] * tangents[right]
        tangents[OUT_RIGHT * size + r * m + n] += tangents[weight] * charts[left] + charts[weight] * tangents[left]


@callee
def outside_tangent(charts, tangents, n, single_root):
    """Derivatives of the outside matrices and of ``GRADIENT``, after :func:`inside_tangent`."""
    m, size = n + 1, (n + 1) * (n + 1)
    fill(tangents, size, OUT_RIGHT, MATRICES, 0.0)
    if single_root:
        _root_tangent(charts, tangents, n)
    for i in range(1 if single_root else 0, m):
        row = i * m
        if i > 0:
            for r in range(n - 1, i - 1, -1):
                out, into = OUT_LEFT * size + row + r, r * m + r + 1
                left, to_left = LEFT * size + row + r, OUT_INTO_LEFT * size + into
                tangents[out] += _share_tangent(
                    charts, tangents, out + 1, INTO_LEFT * size + into, to_left, left, n - r
                )
        for k in range(n - 1, i - 1, -1):
            below, at, mirrored = (k + 1) * m + k + 1, row + k + 1, (k + 1) * m + i
            out, split = OUT_RIGHT * size + at, OUT_SPLIT * size + at
            to_right = _share_tangent(
                charts, tangents, out, RIGHT * size + below, OUT_RIGHT * size + below, INTO_RIGHT * size + at, n - k
            )
            old, weight, inner = OUT_INTO_RIGHT * size + at, WEIGHT * size + at, SPLIT * size + at
            tangents[old] = to_right
            tangents[GRADIENT * size + at] = to_right * charts[inner] + charts[old] * tangents[inner]
            tangents[split] = to_right * charts[weight] + charts[old] * tangents[weight]
            if i > 0:
                old, weight = OUT_INTO_LEFT * size + at, WEIGHT * size + mirrored
                tangents[GRADIENT * size + mirrored] = tangents[old] * charts[inner] + charts[old] * tangents[inner]
                tangents[split] += tangents[old] * charts[weight] + charts[old] * tangents[weight]
            tangents[out - 1] += _share_tangent(
                charts, tangents, split, LEFT * size + below, OUT_LEFT * size + below, RIGHT * size + at - 1, n - k
            )
