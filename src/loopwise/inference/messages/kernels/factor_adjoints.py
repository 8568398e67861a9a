"""Undoing the messages of factors: from adjoints of messages to variables to those of messages to factors and tables.

In: adjoints of log messages ``m``, and the messages to factors they were computed from. Out: adjoints of log messages
``n`` and of tables, added in place. The adjoint of :mod:`loopwise.inference.messages.kernels.messages` and
:mod:`loopwise.inference.messages.kernels.factors`.

A message is a mean of the cells that agree with its value, with weights w = theta prod n / m~; so undoing it spreads
its adjoint over those cells by w (ERMA spec, 4.1). With r = adjoint / m~ this is r theta prod n: no logarithms, and
one division a value. A value whose m~ vanished is forbidden and hands nothing on.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import overload

from loopwise.compiled.arithmetic import U, balance, collect, combine, lanes_of, nothing, one
from loopwise.compiled.decorators import INLINED, fused_callee, fused_inlined, spliced
from loopwise.inference.messages.kernels.contract import contract_back
from loopwise.inference.messages.kernels.pairs import is_literal, least_mass, pair_back, share_of, suited
from loopwise.inference.messages.kernels.plan import (
    ARITY,
    CELL_SLOTS,
    CELLS,
    K0,
    K1,
    MEMBERS,
    SHAPE,
    SHARED,
    SLOT_START,
    TABLE_BLOCK,
    TABLE_START,
    WIDTH,
)


@spliced
def pair_rates(
    theta, t0, cell_stride, lane_step, n, source, back, target, rates, r0, rows, row_stride, columns, column_stride,
    kept, lanes,
):  # fmt: skip
    """rates = adjoint of the message / its unnormalised value; of the adjoint stays what damping kept of the old."""
    least = least_mass(theta)
    for a in range(rows):
        first = t0 + a * row_stride * cell_stride
        for lane in range(lanes):
            total = theta.dtype.type(0.0)
            for b in range(columns):
                cell = first + b * column_stride * cell_stride + lane * lane_step
                total += theta[cell] * n[source + b * lanes + lane]
            adjoint = back[target + a * lanes + lane]
            rates[r0 + a * lanes + lane] = share_of(adjoint * (1 - kept), total, least)
            back[target + a * lanes + lane] = adjoint * kept


@spliced
def pair_sources(
    theta, t0, cell_stride, lane_step, n, source, spread, onward, rates, r0, rows, row_stride, columns, column_stride,
    lanes,
):  # fmt: skip
    """Adjoint of the message that the undone one was computed from: n(b) sum_a theta(a, b) r(a)."""
    for b in range(columns):
        first = t0 + b * column_stride * cell_stride
        for lane in range(lanes):
            total = theta.dtype.type(0.0)
            for a in range(rows):
                total += theta[first + a * row_stride * cell_stride + lane * lane_step] * rates[r0 + a * lanes + lane]
            spread[onward + b * lanes + lane] += n[source + b * lanes + lane] * total


@fused_callee
def pair_message_back(
    groups, g, member, position, block, theta, now, adjoint, kept, rates, literal, shared, lane_tag,
):  # fmt: skip
    """Undoes one message of one pair factor, to its member ``position``, probability domain."""
    lanes = lanes_of(lane_tag)
    cell_stride = lanes if shared is None else U(1)
    lane_step = U(1) if shared is None else U(0)
    k0 = groups[g, K0] if len(literal) == 0 else U(len(literal))
    k1 = groups[g, K1] if len(literal) == 0 else U(len(literal))
    t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + member * k0 * k1 * cell_stride
    s0 = U(adjoint.theta_start[g, 0]) + block * U(adjoint.theta_start[g, 1]) + member * k0 * k1 * lanes
    at = (groups[g, SLOT_START] + member * (k0 + k1)) * lanes
    here = at if position == U(0) else at + k0 * lanes
    there = at + k0 * lanes if position == U(0) else at
    if len(literal) > 0:
        rows, columns = U(len(literal)), U(len(literal))
    else:
        rows, columns = (k0, k1) if position == U(0) else (k1, k0)
    row_stride, column_stride = (k1, U(1)) if position == U(0) else (U(1), k1)
    table_sum = adjoint.theta
    pair_rates(
        theta, t0, cell_stride, lane_step, now, there, adjoint.m, here, rates, U(0), rows, row_stride, columns,
        column_stride, kept, lanes,
    )  # fmt: skip
    pair_sources(
        theta, t0, cell_stride, lane_step, now, there, adjoint.n, there, rates, U(0), rows, row_stride, columns,
        column_stride, lanes,
    )  # fmt: skip
    for a in range(rows):
        for b in range(columns):
            cell = a * row_stride + b * column_stride
            for lane in range(lanes):
                table_sum[s0 + cell * lanes + lane] += (
                    theta[t0 + cell * cell_stride + lane * lane_step]
                    * rates[a * lanes + lane]
                    * now[there + b * lanes + lane]
                )


@spliced
def cell_products(theta, t, lane_step, n, n0, cell_slots, slots, arity, partial, lanes, semiring):
    """partial[j] = theta(cell) times the messages of all members but j, by prefix and suffix."""
    for lane in range(lanes):
        partial[lane] = theta[t + lane * lane_step]
    for position in range(U(1), arity):
        source = n0 + U(cell_slots[slots + position - U(1)]) * lanes
        for lane in range(lanes):
            value = partial[(position - U(1)) * lanes + lane]
            partial[position * lanes + lane] = combine(value, n[source + lane], semiring)
    for lane in range(lanes):
        partial[arity * lanes + lane] = one(theta, semiring)
    for step in range(arity):
        position = arity - U(1) - step
        source = n0 + U(cell_slots[slots + position]) * lanes
        for lane in range(lanes):
            suffix = partial[arity * lanes + lane]
            partial[position * lanes + lane] = combine(partial[position * lanes + lane], suffix, semiring)
            partial[arity * lanes + lane] = combine(suffix, n[source + lane], semiring)


@fused_inlined
def part_of(product, rate, adjoint, semiring):
    """A cell's part in its message's adjoint: product / mass x adjoint; ``rate`` is adjoint / mass, or the log mass."""
    if len(semiring) < 2:
        return product * rate
    return math.exp(product - rate) * adjoint if rate > -np.inf else adjoint * 0


@fused_callee
def table_back(
    groups, cell_slots, shapes, g, member, first, last, block, theta, n, n_base, adjoint, kept, rates, partial,
    lane_tag, semiring,
):  # fmt: skip
    """Undoes the messages of one factor of any arity to its members ``first`` to ``last``, either domain.

    Per cell and member i: G_i = theta prod_{j != i} n_j r_i; then member j gets the sum of all G_i but its own.
    """
    lanes = lanes_of(lane_tag)
    shared = groups[g, SHARED] == U(1)
    cell_stride = U(1) if shared else lanes
    lane_step = U(0) if shared else U(1)
    arity, cells, width = groups[g, ARITY], groups[g, CELLS], groups[g, WIDTH]
    t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + member * cells * cell_stride
    s0 = U(adjoint.theta_start[g, 0]) + block * U(adjoint.theta_start[g, 1]) + member * cells * lanes
    at = (groups[g, SLOT_START] + member * width) * lanes
    n0, slots0 = n_base + at, groups[g, CELL_SLOTS]
    back, spread, table_sum = adjoint.m, adjoint.n, adjoint.theta
    # Unnormalised messages; in the probability domain the rates take their place.
    for place in range(width * lanes):
        rates[place] = nothing(theta, semiring)
    for cell in range(cells):
        slots = slots0 + cell * arity
        cell_products(
            theta, t0 + cell * cell_stride, lane_step, n, n0, cell_slots, slots, arity, partial, lanes, semiring,
        )  # fmt: skip
        for position in range(first, last):
            slot = U(cell_slots[slots + position]) * lanes
            for lane in range(lanes):
                rates[slot + lane] = collect(rates[slot + lane], partial[position * lanes + lane], semiring)
    low = U(cell_slots[slots0 + first]) * lanes
    high = U(cell_slots[slots0 + last]) * lanes if last < arity else width * lanes
    for position in range(first, last):
        slot = U(cell_slots[slots0 + position]) * lanes
        balance(back, at + slot, U(shapes[groups[g, SHAPE] + position]), lane_tag)
    for place in range(low, high):
        if len(semiring) < 2:
            rates[place] = share_of(back[at + place], rates[place], least_mass(theta))
    spare = arity * lanes
    for cell in range(cells):
        slots = slots0 + cell * arity
        cell_products(
            theta, t0 + cell * cell_stride, lane_step, n, n0, cell_slots, slots, arity, partial, lanes, semiring,
        )  # fmt: skip
        for lane in range(lanes):
            partial[spare + lane] = 0
        for position in range(first, last):
            slot = U(cell_slots[slots + position]) * lanes
            for lane in range(lanes):
                value = part_of(partial[position * lanes + lane], rates[slot + lane], back[at + slot + lane], semiring)
                value *= 1 - kept
                partial[position * lanes + lane] = value
                partial[spare + lane] += value
        for position in range(arity):
            slot = U(cell_slots[slots + position]) * lanes
            inside = (position >= first) & (position < last)
            for lane in range(lanes):
                value = partial[spare + lane]
                if inside:
                    value -= partial[position * lanes + lane]
                spread[at + slot + lane] += value
        for lane in range(lanes):
            table_sum[s0 + cell * lanes + lane] += partial[spare + lane]
    for place in range(low, high):
        back[at + place] *= kept


@fused_callee
def factors_back(
    plan, block, part, parts, theta, n, n_base, adjoint, kept, scratch, literal, general, sharing, lane_tag, semiring,
):  # fmt: skip
    """Undoes the flooding update of part ``part`` of ``parts`` of all factors: the adjoint of ``factor_step``.

    ``kept``: what damping keeps of a message, and so of its adjoint; if nothing, the adjoints of messages to variables
    are used up, with anything left in them. Adjoints of messages to factors are overwritten.
    """
    for g in range(U(plan.groups.shape[0])):
        members = plan.groups[g, MEMBERS]
        lo, hi = members * part // parts, members * (part + U(1)) // parts
        if sharing is not None and plan.groups[g, SHARED] == U(1):
            group_back(
                plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, sharing, lane_tag,
                semiring,
            )  # fmt: skip
        else:
            group_back(
                plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, None, lane_tag,
                semiring,
            )  # fmt: skip


def group_back(
    plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, shared, lane_tag, semiring,
):  # fmt: skip
    """Undoes the messages of some factors of one group, by the kernel for it."""


@overload(group_back, jit_options=INLINED)
def _group_back(
    plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, shared, lane_tag, semiring,
):  # fmt: skip
    def logs(
        plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, shared, lane_tag, semiring,
    ):  # fmt: skip
        log_back(plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, lane_tag, semiring)

    def tables(
        plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, shared, lane_tag, semiring,
    ):  # fmt: skip
        contract_back(plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch[0], shared, lane_tag)

    def pairs(
        plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, shared, lane_tag, semiring,
    ):  # fmt: skip
        pair_back(plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, literal, shared, lane_tag)

    def both(
        plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch, literal, general, shared, lane_tag, semiring,
    ):  # fmt: skip
        if is_literal(plan, g, literal):
            pair_back(plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, literal, shared, lane_tag)
        else:
            contract_back(plan, g, block, lo, hi, theta, n, n_base, adjoint, kept, scratch[0], shared, lane_tag)

    return suited(literal, general, semiring, logs, tables, pairs, both)


@fused_callee
def log_back(plan, g, block, first, last, theta, n, n_base, adjoint, kept, scratch, lane_tag, semiring):
    """Undoes the messages of the factors ``first`` to ``last`` of group ``g``, any arity, log domain."""
    lanes, width, spread = lanes_of(lane_tag), plan.groups[g, WIDTH], adjoint.n
    here = (plan.groups[g, SLOT_START] + first * width) * lanes
    for place in range(here, here + (last - first) * width * lanes):
        spread[place] = 0
    for member in range(first, last):
        table_back(
            plan.groups, plan.cell_slots, plan.shapes, g, member, U(0), plan.groups[g, ARITY], block, theta, n, n_base,
            adjoint, kept, scratch[0], scratch[1], lane_tag, semiring,
        )  # fmt: skip


@fused_callee
def message_back(
    plan, g, member, position, block, theta, adjoint, kept, scratch, literal, general, sharing, lane_tag, semiring,
):  # fmt: skip
    """Undoes one message of one factor: the adjoint of ``pull_message``. Reads messages to factors from
    ``adjoint.now``."""
    groups, now = plan.groups, adjoint.now
    pair = len(semiring) < 2 and groups[g, ARITY] == U(2)
    if len(literal) > 0:
        pair = pair and groups[g, K0] == U(len(literal)) and groups[g, K1] == U(len(literal))
    if general is not None and not pair:
        table_back(
            groups, plan.cell_slots, plan.shapes, g, member, position, position + U(1), block, theta, now, U(0),
            adjoint, kept, scratch[0], scratch[1], lane_tag, semiring,
        )  # fmt: skip
    elif sharing is not None and groups[g, SHARED] == U(1):
        pair_message_back(
            groups, g, member, position, block, theta, now, adjoint, kept, scratch[0], literal, sharing, lane_tag,
        )  # fmt: skip
    else:
        pair_message_back(
            groups, g, member, position, block, theta, now, adjoint, kept, scratch[0], literal, None, lane_tag,
        )  # fmt: skip
