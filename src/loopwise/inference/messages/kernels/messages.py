"""The messages of one factor to its variables.

In: views of one factor's table and of the messages to it. Out: messages written in place.

Memory: a value for (slot, lane) stands at ``start + slot * lanes + lane`` of its view. Messages to variables are ``m``,
messages to factors ``n``; with counting numbers both are taken to the power 1/c_alpha (so m here is M of the usual TRW
form) and tables hold numbers to that power.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.arithmetic import U, add_mass, blend, collect, combine, inverse, lanes_of, nothing, one
from loopwise.compiled.decorators import fused_callee, spliced
from loopwise.inference.messages.kernels.views import at, cell_at, slot_at, value_at


@spliced
def pair_message(table, n, fresh, out, lanes, semiring):
    """fresh[a] = collect over b of table[a, b] n[b]: the message of a pair factor to one of its two variables, into
    ``fresh`` from ``out`` on."""
    x = table.data
    for a in range(table.rows):
        for lane in range(lanes):
            if len(semiring) == 2:  # log-sum-exp in two passes: one logarithm a row
                high = x.dtype.type(-np.inf)
                for b in range(table.columns):
                    high = max(high, x[cell_at(table, a, b, lane)] + at(n, b * lanes + lane))
                total = x.dtype.type(0.0)
                if high > -np.inf:
                    for b in range(table.columns):
                        total += math.exp(x[cell_at(table, a, b, lane)] + at(n, b * lanes + lane) - high)
                    high += math.log(total)
                fresh[out + a * lanes + lane] = high
            else:
                total = nothing(x, semiring)
                for b in range(table.columns):
                    value = combine(x[cell_at(table, a, b, lane)], at(n, b * lanes + lane), semiring)
                    total = collect(total, value, semiring)
                fresh[out + a * lanes + lane] = total


@spliced
def undamped_pair_message(table, n, m, m0, scratch, lanes, semiring):
    """:func:`pair_message` and :func:`store_message` in one loop over lanes, for the probability domain."""
    x, fresh, lowest = table.data, scratch.fresh, scratch.lowest
    for lane in range(lanes):
        total = x.dtype.type(0.0)
        for a in range(table.rows):
            value = nothing(x, semiring)
            for b in range(table.columns):
                value = collect(value, x[cell_at(table, a, b, lane)] * at(n, b * lanes + lane), semiring)
            fresh[a * lanes + lane] = value
            total += value
        lowest[lane] = min(lowest[lane], total)
        share = inverse(total, semiring)
        for a in range(table.rows):
            m[m0 + a * lanes + lane] = fresh[a * lanes + lane] * share


@spliced
def update_pair(table, n, m, m0, damping, scratch, lanes, semiring):
    """Renews one message of a pair factor, in ``m`` at ``m0``."""
    if len(semiring) < 2 and damping == 0:
        undamped_pair_message(table, n, m, m0, scratch, lanes, semiring)
    else:
        pair_message(table, n, scratch.fresh, U(0), lanes, semiring)
        store_message(scratch.fresh, U(0), m, m0, table.rows, damping, scratch.lowest, lanes, semiring)


@spliced
def table_messages(table, n, fresh, partial, lanes, semiring):
    """All messages of a factor of any arity: per cell, the product without each member by prefix and suffix."""
    arity = table.arity
    for place in range(table.width * lanes):
        fresh[place] = nothing(fresh, semiring)
    for cell in range(table.cells):
        for lane in range(lanes):
            partial[lane] = value_at(table, cell, lane)
        for position in range(arity):
            slot, here = slot_at(table, cell, position) * lanes, position * lanes
            for lane in range(lanes):
                partial[here + lanes + lane] = combine(partial[here + lane], at(n, slot + lane), semiring)
        last = (arity + U(1)) * lanes
        for lane in range(lanes):
            partial[last + lane] = one(fresh, semiring)
        for step in range(arity):
            position = arity - U(1) - step
            slot, here = slot_at(table, cell, position) * lanes, position * lanes
            for lane in range(lanes):
                value = combine(partial[here + lane], partial[last + lane], semiring)
                fresh[slot + lane] = collect(fresh[slot + lane], value, semiring)
                partial[last + lane] = combine(partial[last + lane], at(n, slot + lane), semiring)


@fused_callee
def table_message(table, n, target, states, scratch, lane_tag, semiring):
    """The message of a factor of any arity to its member ``target`` only, written to the front of ``scratch.fresh``."""
    lanes, fresh, partial = lanes_of(lane_tag), scratch.fresh, scratch.partial
    first = slot_at(table, U(0), target)  # of the target's first value
    for place in range(states * lanes):
        fresh[place] = nothing(fresh, semiring)
    for cell in range(table.cells):
        for lane in range(lanes):
            partial[lane] = value_at(table, cell, lane)
        for position in range(table.arity):
            if position != target:
                slot = slot_at(table, cell, position) * lanes
                for lane in range(lanes):
                    partial[lane] = combine(partial[lane], at(n, slot + lane), semiring)
        slot = (slot_at(table, cell, target) - first) * lanes
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
