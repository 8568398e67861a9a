"""Tangents of the messages of factors, and tangents of undoing them: what Hessian-vector products need of factors.

In: messages to factors and tables with their tangents (of logarithms, marked by a dot). Out: tangents of messages to
variables; or tangents of adjoints. Forward over reverse (ERMA spec, section 8).

A log message moves by the mean of its cells' moves: m.(x) = sum w (theta. + sum_j n._j) with the weights w of
:mod:`loopwise.kernels.factor_adjoints`; the weights themselves by w. = w (move of the cell - move of the message).
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.kernels.arithmetic import U, balance, callee, collect, lanes_of, nothing, scalar, spliced
from loopwise.kernels.factor_adjoints import cell_products
from loopwise.kernels.pairs import least_mass, share_of
from loopwise.kernels.plan import (
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
def pair_moves(
    theta, theta_dot, t0, cell_stride, lane_step, n, source, n_dot, source_dot, masses, moves, r0, rows, row_stride,
    columns, column_stride, lanes,
):  # fmt: skip
    """Unnormalised messages of a pair factor to one member, and by how much their logarithms move."""
    least = least_mass(theta)
    for a in range(rows):
        first = t0 + a * row_stride * cell_stride
        for lane in range(lanes):
            mass, change = theta.dtype.type(0.0), theta.dtype.type(0.0)
            for b in range(columns):
                cell = first + b * column_stride * cell_stride + lane * lane_step
                value = theta[cell] * n[source + b * lanes + lane]
                mass += value
                change += value * (theta_dot[cell] + n_dot[source_dot + b * lanes + lane])
            masses[r0 + a * lanes + lane] = mass
            moves[r0 + a * lanes + lane] = share_of(change, mass, least)


@spliced
def store_moves(moves, r0, m_dot, target, states, kept, lanes):
    """Writes the tangent of a damped message. Its scale is free; the mean is taken out lest it grow from sweep to
    sweep."""
    for lane in range(lanes):
        mean = m_dot.dtype.type(0.0)
        for state in range(states):
            mean += moves[r0 + state * lanes + lane]
        mean /= states
        for state in range(states):
            place = target + state * lanes + lane
            m_dot[place] = (1 - kept) * (moves[r0 + state * lanes + lane] - mean) + kept * m_dot[place]


@callee
def pair_push(
    plan, g, block, first, last, theta, n, n_base, tangent, dot_base, kept, scratch, literal, shared, lane_tag,
):  # fmt: skip
    """Tangents of both messages of the pair factors ``first`` to ``last`` of group ``g``, probability domain."""
    lanes = lanes_of(lane_tag)
    cell_stride = lanes if shared is None else U(1)
    lane_step = U(1) if shared is None else U(0)
    k0 = plan.groups[g, K0] if len(literal) == 0 else U(len(literal))
    k1 = plan.groups[g, K1] if len(literal) == 0 else U(len(literal))
    tables = plan.groups[g, TABLE_START] + block * plan.groups[g, TABLE_BLOCK]
    slots = plan.groups[g, SLOT_START] * lanes
    masses, moves, m_dot, n_dot, theta_dot = scratch[0], scratch[3], tangent.m, tangent.n, tangent.theta
    for member in range(first, last):
        at = slots + member * (k0 + k1) * lanes
        t0 = tables + member * k0 * k1 * cell_stride
        for side in range(U(2)):
            here, there = at + side * k0 * lanes, at + (U(1) - side) * k0 * lanes
            if len(literal) > 0:
                rows, columns = U(len(literal)), U(len(literal))
            else:
                rows, columns = (k0, k1) if side == U(0) else (k1, k0)
            row_stride, column_stride = (k1, U(1)) if side == U(0) else (U(1), k1)
            pair_moves(
                theta, theta_dot, t0, cell_stride, lane_step, n, n_base + there, n_dot, dot_base + there, masses, moves,
                U(0), rows, row_stride, columns, column_stride, lanes,
            )  # fmt: skip
            store_moves(moves, U(0), m_dot, here, rows, kept, lanes)


@callee
def pair_back_hvp(
    plan, g, block, first, last, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept, scratch, literal, shared,
    lane_tag,
):  # fmt: skip
    """Undoes both messages of pair factors as ``pair_back`` does, with tangents: those of adjoints go to ``dotted``,
    and only those of the tables are summed up."""
    lanes = lanes_of(lane_tag)
    cell_stride = lanes if shared is None else U(1)
    lane_step = U(1) if shared is None else U(0)
    k0 = plan.groups[g, K0] if len(literal) == 0 else U(len(literal))
    k1 = plan.groups[g, K1] if len(literal) == 0 else U(len(literal))
    tables = plan.groups[g, TABLE_START] + block * plan.groups[g, TABLE_BLOCK]
    sums = U(dotted.theta_start[g, 0]) + block * U(dotted.theta_start[g, 1])
    slots = plan.groups[g, SLOT_START] * lanes
    rates, slopes, n_dot, theta_dot = scratch[0], scratch[3], tangent.n, tangent.theta
    back, spread, back_dot, spread_dot, table_sum = adjoint.m, adjoint.n, dotted.m, dotted.n, dotted.theta
    least = least_mass(theta)
    for member in range(first, last):
        at = slots + member * (k0 + k1) * lanes
        t0 = tables + member * k0 * k1 * cell_stride
        for side in range(U(2)):
            here, there = at + side * k0 * lanes, at + (U(1) - side) * k0 * lanes
            if len(literal) > 0:
                rows, columns = U(len(literal)), U(len(literal))
            else:
                rows, columns = (k0, k1) if side == U(0) else (k1, k0)
            row_stride, column_stride = (k1, U(1)) if side == U(0) else (U(1), k1)
            r0 = side * k0 * lanes
            pair_moves(
                theta, theta_dot, t0, cell_stride, lane_step, n, n_base + there, n_dot, dot_base + there, rates, slopes,
                r0, rows, row_stride, columns, column_stride, lanes,
            )  # fmt: skip
            for place in range(rows * lanes):
                mass, value, change = rates[r0 + place], back[here + place], back_dot[here + place]
                rate = share_of(value * (1 - kept), mass, least)
                rates[r0 + place] = rate
                slopes[r0 + place] = share_of(change * (1 - kept), mass, least) - rate * slopes[r0 + place]
                back[here + place] = value * kept
                back_dot[here + place] = change * kept
            for b in range(columns):
                for lane in range(lanes):
                    total, change = theta.dtype.type(0.0), theta.dtype.type(0.0)
                    move = n_dot[dot_base + there + b * lanes + lane]
                    for a in range(rows):
                        cell = t0 + (a * row_stride + b * column_stride) * cell_stride + lane * lane_step
                        rate = rates[r0 + a * lanes + lane]
                        total += theta[cell] * rate
                        change += theta[cell] * (slopes[r0 + a * lanes + lane] + rate * (theta_dot[cell] + move))
                    message = n[n_base + there + b * lanes + lane]
                    spread[there + b * lanes + lane] = message * total
                    spread_dot[there + b * lanes + lane] = message * change
        s0 = sums + member * k0 * k1 * lanes
        n0, n1, d0, d1 = n_base + at, n_base + at + k0 * lanes, dot_base + at, dot_base + at + k0 * lanes
        for a in range(k0):
            for b in range(k1):
                for lane in range(lanes):
                    cell = t0 + (a * k1 + b) * cell_stride + lane * lane_step
                    i, j = a * lanes + lane, b * lanes + lane
                    there = n[n1 + j] * (slopes[i] + rates[i] * (theta_dot[cell] + n_dot[d1 + j]))
                    here = n[n0 + i] * (
                        slopes[k0 * lanes + j] + rates[k0 * lanes + j] * (theta_dot[cell] + n_dot[d0 + i])
                    )
                    table_sum[s0 + (a * k1 + b) * lanes + lane] += theta[cell] * (there + here)


@scalar
def weight_of(product, mass, least, semiring):
    """A cell's weight in its message: product / mass."""
    if len(semiring) < 2:
        return share_of(product, mass, least)
    return math.exp(product - mass) if mass > -np.inf else 0.0


@callee
def table_moves(
    groups, cell_slots, g, member, first, last, block, theta, n, n_base, tangent, dot_base, masses, moves, partial,
    whole, lane_tag, semiring,
):  # fmt: skip
    """Unnormalised messages of a factor of any arity to its members ``first`` to ``last``, either domain, and by how
    much their logarithms move."""
    lanes = lanes_of(lane_tag)
    shared = groups[g, SHARED] == U(1)
    cell_stride = U(1) if shared else lanes
    lane_step = U(0) if shared else U(1)
    arity, cells, width = groups[g, ARITY], groups[g, CELLS], groups[g, WIDTH]
    t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + member * cells * cell_stride
    at = (groups[g, SLOT_START] + member * width) * lanes
    slots0 = groups[g, CELL_SLOTS]
    theta_dot, n_dot, least = tangent.theta, tangent.n, least_mass(theta)
    for place in range(width * lanes):
        masses[place] = nothing(theta, semiring)
        moves[place] = 0
    for cell in range(cells):
        slots = slots0 + cell * arity
        cell_products(
            theta, t0 + cell * cell_stride, lane_step, n, n_base + at, cell_slots, slots, arity, partial, lanes,
            semiring,
        )  # fmt: skip
        for position in range(first, last):
            slot = U(cell_slots[slots + position]) * lanes
            for lane in range(lanes):
                masses[slot + lane] = collect(masses[slot + lane], partial[position * lanes + lane], semiring)
    for cell in range(cells):
        slots = slots0 + cell * arity
        cell_products(
            theta, t0 + cell * cell_stride, lane_step, n, n_base + at, cell_slots, slots, arity, partial, lanes,
            semiring,
        )  # fmt: skip
        cell_move(
            theta_dot, t0 + cell * cell_stride, lane_step, n_dot, dot_base + at, cell_slots, slots, arity, whole, lanes,
        )  # fmt: skip
        for position in range(first, last):
            slot = U(cell_slots[slots + position]) * lanes
            for lane in range(lanes):
                weight = weight_of(partial[position * lanes + lane], masses[slot + lane], least, semiring)
                moves[slot + lane] += weight * (whole[lane] - n_dot[dot_base + at + slot + lane])


@spliced
def cell_move(theta_dot, t, lane_step, n_dot, d0, cell_slots, slots, arity, whole, lanes):
    """whole = by how much the logarithm of a cell moves with all its members' messages."""
    for lane in range(lanes):
        whole[lane] = theta_dot[t + lane * lane_step]
    for position in range(arity):
        slot = d0 + U(cell_slots[slots + position]) * lanes
        for lane in range(lanes):
            whole[lane] += n_dot[slot + lane]


@callee
def table_push(
    plan, g, member, first, last, block, theta, n, n_base, tangent, dot_base, kept, scratch, lane_tag, semiring,
):  # fmt: skip
    """Tangents of the messages of one factor to its members ``first`` to ``last``."""
    lanes, groups = lanes_of(lane_tag), plan.groups
    table_moves(
        groups, plan.cell_slots, g, member, first, last, block, theta, n, n_base, tangent, dot_base, scratch[0],
        scratch[3], scratch[1], scratch[2], lane_tag, semiring,
    )  # fmt: skip
    at = (groups[g, SLOT_START] + member * groups[g, WIDTH]) * lanes
    for position in range(first, last):
        offset = U(plan.cell_slots[groups[g, CELL_SLOTS] + position]) * lanes
        states = U(plan.shapes[groups[g, SHAPE] + position])
        store_moves(scratch[3], offset, tangent.m, at + offset, states, kept, lanes)


@callee
def table_back_hvp(
    plan, g, member, first, last, block, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept, scratch, lane_tag,
    semiring,
):  # fmt: skip
    """Undoes messages of one factor as ``table_back`` does, with tangents, as in :func:`pair_back_hvp`."""
    lanes, groups, cell_slots = lanes_of(lane_tag), plan.groups, plan.cell_slots
    masses, partial, whole, moves, parts_dot = scratch
    table_moves(
        groups, cell_slots, g, member, first, last, block, theta, n, n_base, tangent, dot_base, masses, moves, partial,
        whole, lane_tag, semiring,
    )  # fmt: skip
    shared = groups[g, SHARED] == U(1)
    cell_stride = U(1) if shared else lanes
    lane_step = U(0) if shared else U(1)
    arity, cells, width = groups[g, ARITY], groups[g, CELLS], groups[g, WIDTH]
    t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + member * cells * cell_stride
    s0 = U(dotted.theta_start[g, 0]) + block * U(dotted.theta_start[g, 1]) + member * cells * lanes
    at = (groups[g, SLOT_START] + member * width) * lanes
    slots0 = groups[g, CELL_SLOTS]
    theta_dot, n_dot, least = tangent.theta, tangent.n, least_mass(theta)
    back, spread, back_dot, spread_dot, table_sum = adjoint.m, adjoint.n, dotted.m, dotted.n, dotted.theta
    for position in range(first, last):
        slot, states = U(cell_slots[slots0 + position]) * lanes, U(plan.shapes[groups[g, SHAPE] + position])
        balance(back, at + slot, states, lane_tag)
        balance(back_dot, at + slot, states, lane_tag)
    spare = arity * lanes
    for cell in range(cells):
        slots = slots0 + cell * arity
        cell_products(
            theta, t0 + cell * cell_stride, lane_step, n, n_base + at, cell_slots, slots, arity, partial, lanes,
            semiring,
        )  # fmt: skip
        cell_move(
            theta_dot, t0 + cell * cell_stride, lane_step, n_dot, dot_base + at, cell_slots, slots, arity, whole, lanes,
        )  # fmt: skip
        for lane in range(lanes):
            partial[spare + lane] = 0
            parts_dot[spare + lane] = 0
        for position in range(first, last):
            slot = U(cell_slots[slots + position]) * lanes
            here = position * lanes
            for lane in range(lanes):
                weight = (1 - kept) * weight_of(partial[here + lane], masses[slot + lane], least, semiring)
                value = back[at + slot + lane]
                move = whole[lane] - n_dot[dot_base + at + slot + lane] - moves[slot + lane]
                partial[here + lane] = weight * value
                parts_dot[here + lane] = weight * (back_dot[at + slot + lane] + value * move)
                partial[spare + lane] += partial[here + lane]
                parts_dot[spare + lane] += parts_dot[here + lane]
        for position in range(arity):
            slot = at + U(cell_slots[slots + position]) * lanes
            inside = (position >= first) & (position < last)
            for lane in range(lanes):
                value, change = partial[spare + lane], parts_dot[spare + lane]
                if inside:
                    value -= partial[position * lanes + lane]
                    change -= parts_dot[position * lanes + lane]
                spread[slot + lane] += value
                spread_dot[slot + lane] += change
        for lane in range(lanes):
            table_sum[s0 + cell * lanes + lane] += parts_dot[spare + lane]
    low = at + U(cell_slots[slots0 + first]) * lanes
    high = at + (U(cell_slots[slots0 + last]) * lanes if last < arity else width * lanes)
    for place in range(low, high):
        back[place] *= kept
        back_dot[place] *= kept


@callee
def factors_push(
    plan, block, part, parts, theta, n, n_base, tangent, dot_base, kept, scratch, literal, general, sharing, lane_tag,
    semiring,
):  # fmt: skip
    """Tangents of the flooding update of part ``part`` of ``parts`` of all factors."""
    size = U(len(literal))
    for g in range(U(plan.groups.shape[0])):
        members, arity = plan.groups[g, MEMBERS], plan.groups[g, ARITY]
        lo, hi = members * part // parts, members * (part + U(1)) // parts
        pair = len(semiring) < 2 and arity == U(2)
        if len(literal) > 0:
            pair = pair and plan.groups[g, K0] == size and plan.groups[g, K1] == size
        if general is not None and not pair:
            for member in range(lo, hi):
                table_push(
                    plan, g, member, U(0), arity, block, theta, n, n_base, tangent, dot_base, kept, scratch, lane_tag,
                    semiring,
                )  # fmt: skip
        elif sharing is not None and plan.groups[g, SHARED] == U(1):
            pair_push(
                plan, g, block, lo, hi, theta, n, n_base, tangent, dot_base, kept, scratch, literal, sharing, lane_tag,
            )  # fmt: skip
        else:
            pair_push(
                plan, g, block, lo, hi, theta, n, n_base, tangent, dot_base, kept, scratch, literal, None, lane_tag,
            )  # fmt: skip


@callee
def factors_back_hvp(
    plan, block, part, parts, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept, scratch, literal, general,
    sharing, lane_tag, semiring,
):  # fmt: skip
    """``factors_back`` with tangents."""
    size, lanes = U(len(literal)), lanes_of(lane_tag)
    spread, spread_dot = adjoint.n, dotted.n
    for g in range(U(plan.groups.shape[0])):
        members, arity, width = plan.groups[g, MEMBERS], plan.groups[g, ARITY], plan.groups[g, WIDTH]
        lo, hi = members * part // parts, members * (part + U(1)) // parts
        pair = len(semiring) < 2 and arity == U(2)
        if len(literal) > 0:
            pair = pair and plan.groups[g, K0] == size and plan.groups[g, K1] == size
        if general is not None and not pair:
            first = (plan.groups[g, SLOT_START] + lo * width) * lanes
            for place in range(first, first + (hi - lo) * width * lanes):
                spread[place] = 0
                spread_dot[place] = 0
            for member in range(lo, hi):
                table_back_hvp(
                    plan, g, member, U(0), arity, block, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept,
                    scratch, lane_tag, semiring,
                )  # fmt: skip
        elif sharing is not None and plan.groups[g, SHARED] == U(1):
            pair_back_hvp(
                plan, g, block, lo, hi, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept, scratch, literal,
                sharing, lane_tag,
            )  # fmt: skip
        else:
            pair_back_hvp(
                plan, g, block, lo, hi, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept, scratch, literal,
                None, lane_tag,
            )  # fmt: skip
