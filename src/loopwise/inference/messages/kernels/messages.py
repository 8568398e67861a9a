"""The messages of one factor to its variables.

In: flat arrays and the offsets of one factor in them. Out: messages written in place.

Memory: a value for (slot, lane) stands at ``offset + slot * lanes + lane``. ``theta`` is read at
``t0 + cell * cell_stride + lane * lane_step``: strides (lanes, 1) when every lane has its own table, (1, 0) when all
lanes share one. Messages to variables are ``m``, messages to factors ``n``; with counting numbers both are
taken to the power 1/c_alpha (so m here is M of the usual TRW form) and ``theta`` holds the table to that power.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.arithmetic import U, add_mass, blend, collect, combine, inverse, lanes_of, nothing, one
from loopwise.compiled.decorators import fused_callee, spliced


@spliced
def pair_message(
    theta,
    t0,
    cell_stride,
    lane_step,
    n,
    source,
    fresh,
    out,
    rows,
    row_stride,
    columns,
    column_stride,
    lanes,
    semiring,
):
    """fresh[a] = collect over b of theta[a, b] n[b]: the message of a pair factor to one of its two variables."""
    for a in range(rows):
        first = t0 + a * row_stride * cell_stride
        for lane in range(lanes):
            if len(semiring) == 2:  # log-sum-exp in two passes: one logarithm a row
                high = theta.dtype.type(-np.inf)
                for b in range(columns):
                    value = (
                        theta[first + b * column_stride * cell_stride + lane * lane_step] + n[source + b * lanes + lane]
                    )
                    high = max(high, value)
                total = theta.dtype.type(0.0)
                if high > -np.inf:
                    for b in range(columns):
                        value = (
                            theta[first + b * column_stride * cell_stride + lane * lane_step]
                            + n[source + b * lanes + lane]
                        )
                        total += math.exp(value - high)
                    high += math.log(total)
                fresh[out + a * lanes + lane] = high
            else:
                total = nothing(theta, semiring)
                for b in range(columns):
                    value = combine(
                        theta[first + b * column_stride * cell_stride + lane * lane_step],
                        n[source + b * lanes + lane],
                        semiring,
                    )
                    total = collect(total, value, semiring)
                fresh[out + a * lanes + lane] = total


@spliced
def undamped_pair_message(
    theta, t0, cell_stride, lane_step, n, source, fresh, m, target, rows, row_stride, columns, column_stride, lowest,
    lanes, semiring,
):  # fmt: skip
    """:func:`pair_message` and :func:`store_message` in one loop over lanes, for the probability domain."""
    for lane in range(lanes):
        total = theta.dtype.type(0.0)
        for a in range(rows):
            first = t0 + a * row_stride * cell_stride + lane * lane_step
            value = nothing(theta, semiring)
            for b in range(columns):
                product = theta[first + b * column_stride * cell_stride] * n[source + b * lanes + lane]
                value = collect(value, product, semiring)
            fresh[a * lanes + lane] = value
            total += value
        lowest[lane] = min(lowest[lane], total)
        share = inverse(total, semiring)
        for a in range(rows):
            m[target + a * lanes + lane] = fresh[a * lanes + lane] * share


@spliced
def update_pair(
    theta, t0, cell_stride, lane_step, n, source, fresh, m, target, rows, row_stride, columns, column_stride, damping,
    lowest, lanes, semiring,
):  # fmt: skip
    """Renews one message of a pair factor in ``m``."""
    if len(semiring) < 2 and damping == 0:
        undamped_pair_message(
            theta, t0, cell_stride, lane_step, n, source, fresh, m, target, rows, row_stride, columns, column_stride,
            lowest, lanes, semiring,
        )  # fmt: skip
    else:
        pair_message(
            theta, t0, cell_stride, lane_step, n, source, fresh, U(0), rows, row_stride, columns, column_stride, lanes,
            semiring,
        )  # fmt: skip
        store_message(fresh, U(0), m, target, rows, damping, lowest, lanes, semiring)


@spliced
def table_messages(
    theta,
    t0,
    cell_stride,
    lane_step,
    n,
    n0,
    fresh,
    cell_slots,
    s0,
    cells,
    arity,
    width,
    partial,
    lanes,
    semiring,
):
    """All messages of a factor of any arity: per cell, the product without each member by prefix and suffix."""
    for place in range(width * lanes):
        fresh[place] = nothing(theta, semiring)
    for cell in range(cells):
        slots = s0 + cell * arity
        for lane in range(lanes):
            partial[lane] = theta[t0 + cell * cell_stride + lane * lane_step]
        for position in range(arity):
            source = n0 + U(cell_slots[slots + position]) * lanes
            here = position * lanes
            for lane in range(lanes):
                partial[here + lanes + lane] = combine(partial[here + lane], n[source + lane], semiring)
        last = (arity + U(1)) * lanes
        for lane in range(lanes):
            partial[last + lane] = one(theta, semiring)
        for step in range(arity):
            position = arity - U(1) - step
            slot = U(cell_slots[slots + position]) * lanes
            here = position * lanes
            for lane in range(lanes):
                value = combine(partial[here + lane], partial[last + lane], semiring)
                fresh[slot + lane] = collect(fresh[slot + lane], value, semiring)
                partial[last + lane] = combine(partial[last + lane], n[n0 + slot + lane], semiring)


@fused_callee
def table_message(
    theta, t0, cell_stride, lane_step, n, n0, fresh, cell_slots, s0, cells, arity, target, states, partial, lane_tag,
    semiring,
):  # fmt: skip
    """The message of a factor of any arity to its member ``target`` only, written to the front of ``fresh``."""
    lanes = lanes_of(lane_tag)
    first = U(cell_slots[s0 + target])  # slot of the target's first value
    for place in range(states * lanes):
        fresh[place] = nothing(theta, semiring)
    for cell in range(cells):
        slots = s0 + cell * arity
        for lane in range(lanes):
            partial[lane] = theta[t0 + cell * cell_stride + lane * lane_step]
        for position in range(arity):
            if position != target:
                source = n0 + U(cell_slots[slots + position]) * lanes
                for lane in range(lanes):
                    partial[lane] = combine(partial[lane], n[source + lane], semiring)
        slot = (U(cell_slots[slots + target]) - first) * lanes
        for lane in range(lanes):
            fresh[slot + lane] = collect(fresh[slot + lane], partial[lane], semiring)


@spliced
def store_message(fresh, f0, m, m0, states, damping, lowest, lanes, semiring):
    """Normalises a fresh message, damps it, writes it; ``lowest[lane]`` keeps the smallest normaliser seen."""
    for lane in range(lanes):
        total = fresh[f0 + lane]
        for state in range(U(1), states):
            total = add_mass(total, fresh[f0 + state * lanes + lane], semiring)
        lowest[lane] = min(lowest[lane], total)
        share = inverse(total, semiring)
        for state in range(states):
            place = state * lanes + lane
            value = combine(fresh[f0 + place], share, semiring)
            if damping == 0:
                m[m0 + place] = value
            else:
                m[m0 + place] = blend(value, m[m0 + place], damping, semiring)
    if damping == 0:
        return
    for lane in range(lanes):
        total = m[m0 + lane]
        for state in range(U(1), states):
            total = add_mass(total, m[m0 + state * lanes + lane], semiring)
        share = inverse(total, semiring)
        for state in range(states):
            place = m0 + state * lanes + lane
            m[place] = combine(m[place], share, semiring)
