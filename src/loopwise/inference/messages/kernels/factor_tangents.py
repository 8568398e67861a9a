"""Tangents of the messages of factors, and tangents of undoing them: what Hessian-vector products need of factors.

In: messages to factors and tables with their tangents (of logarithms, marked by a dot). Out: tangents of messages to
variables; or tangents of adjoints. Forward over reverse (ERMA spec, section 8).

A log message moves by the mean of its cells' moves: m.(x) = sum w (theta. + sum_j n._j) with the weights w of
``factor_adjoints``; the weights themselves by w. = w (move of the cell - move of the message).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import U, balance, collect, lanes_of, nothing
from loopwise.compiled.decorators import fused_callee, fused_inlined, spliced
from loopwise.inference.messages.kernels.factor_adjoints import cell_products
from loopwise.inference.messages.kernels.pairs import least_mass, share_of
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
from loopwise.inference.messages.kernels.views import Message, at, put


class Moving(NamedTuple):
    """Messages to the factors of a block, and by how much their logarithms move."""

    n: Any  # Message
    dot: Any


class Both(NamedTuple):
    """Adjoints (:class:`~loopwise.inference.messages.kernels.plan.Adjoint`), and by how much they move."""

    adjoint: Any
    dotted: Any


class Factors(NamedTuple):
    """Factors ``first`` to ``last`` of group ``g`` in a block."""

    g: Any
    block: Any
    first: Any
    last: Any


class Factor(NamedTuple):
    """Factor ``member`` of group ``g`` in a block, and its variables ``first`` to ``last``."""

    g: Any
    block: Any
    member: Any
    first: Any
    last: Any


class PairTable(NamedTuple):
    """The table of a pair factor and how its logarithms move, with the variable that is told along the rows: seen from
    the other variable, the strides are swapped."""

    data: Any
    dot: Any
    start: Any
    rows: Any
    row: Any
    columns: Any
    column: Any
    lane: Any


@fused_inlined
def cell_at(table, a, b, lane):
    """Where a cell stands in ``table.data``."""
    return table.start + a * table.row + b * table.column + lane * table.lane


@spliced
def pair_table(theta, dot, start, side, k0, k1, cell_stride, lane_step, literal):
    """The table at ``start`` as the variable ``side`` (0 or 1) sees it."""
    if len(literal) > 0:
        rows, columns = U(len(literal)), U(len(literal))
    else:
        rows, columns = (k0, k1) if side == U(0) else (k1, k0)
    row, column = (k1, U(1)) if side == U(0) else (U(1), k1)
    return PairTable(theta, dot, start, rows, row * cell_stride, columns, column * cell_stride, lane_step)


@spliced
def pair_moves(table, n, dot, masses, moves, lanes):
    """Unnormalised messages of a pair factor to one member, and by how much their logarithms move."""
    least = least_mass(table.data)
    for a in range(table.rows):
        for lane in range(lanes):
            mass, change = table.data.dtype.type(0.0), table.data.dtype.type(0.0)
            for b in range(table.columns):
                cell = cell_at(table, a, b, lane)
                value = table.data[cell] * at(n, b * lanes + lane)
                mass += value
                change += value * (table.dot[cell] + at(dot, b * lanes + lane))
            put(masses, a * lanes + lane, mass)
            put(moves, a * lanes + lane, share_of(change, mass, least))


@spliced
def store_moves(moves, m_dot, states, kept, lanes):
    """Writes the tangent of a damped message. Its scale is free; the mean is taken out lest it grow from sweep to
    sweep."""
    for lane in range(lanes):
        mean = m_dot.data.dtype.type(0.0)
        for state in range(states):
            mean += at(moves, state * lanes + lane)
        mean /= states
        for state in range(states):
            place = state * lanes + lane
            put(m_dot, place, (1 - kept) * (at(moves, place) - mean) + kept * at(m_dot, place))


@fused_callee
def pair_push(run, some, moving, tangent, scratch, shared, static):
    """Tangents of both messages of some pair factors, probability domain."""
    plan, literal, lanes = run.plan, static.literal, lanes_of(static.lanes)
    cell_stride = lanes if shared is None else U(1)
    lane_step = U(1) if shared is None else U(0)
    k0 = plan.groups[some.g, K0] if len(literal) == 0 else U(len(literal))
    k1 = plan.groups[some.g, K1] if len(literal) == 0 else U(len(literal))
    tables = plan.groups[some.g, TABLE_START] + some.block * plan.groups[some.g, TABLE_BLOCK]
    slots = plan.groups[some.g, SLOT_START] * lanes
    theta, theta_dot, m_dot = run.theta, tangent.theta, tangent.m
    n, n_base, n_dot, dot_base = moving.n.data, moving.n.start, moving.dot.data, moving.dot.start
    masses, moves = Message(scratch[0], U(0)), Message(scratch[3], U(0))
    for member in range(some.first, some.last):
        here = slots + member * (k0 + k1) * lanes
        start = tables + member * k0 * k1 * cell_stride
        for side in range(U(2)):
            mine, other = here + side * k0 * lanes, here + (U(1) - side) * k0 * lanes
            table = pair_table(theta, theta_dot, start, side, k0, k1, cell_stride, lane_step, literal)
            pair_moves(table, Message(n, n_base + other), Message(n_dot, dot_base + other), masses, moves, lanes)
            store_moves(moves, Message(m_dot, mine), table.rows, run.kept, lanes)


@fused_callee
def pair_back_hvp(run, some, moving, tangent, both, scratch, shared, static):
    """Undoes both messages of some pair factors as ``pair_back`` does, with tangents: those of adjoints go to
    ``both.dotted``, and only those of the tables are summed up."""
    plan, literal, lanes, kept = run.plan, static.literal, lanes_of(static.lanes), run.kept
    adjoint, dotted = both.adjoint, both.dotted
    cell_stride = lanes if shared is None else U(1)
    lane_step = U(1) if shared is None else U(0)
    k0 = plan.groups[some.g, K0] if len(literal) == 0 else U(len(literal))
    k1 = plan.groups[some.g, K1] if len(literal) == 0 else U(len(literal))
    tables = plan.groups[some.g, TABLE_START] + some.block * plan.groups[some.g, TABLE_BLOCK]
    sums = U(dotted.theta_start[some.g, 0]) + some.block * U(dotted.theta_start[some.g, 1])
    slots = plan.groups[some.g, SLOT_START] * lanes
    theta, theta_dot, rates, slopes = run.theta, tangent.theta, scratch[0], scratch[3]
    n, n_base, n_dot, dot_base = moving.n.data, moving.n.start, moving.dot.data, moving.dot.start
    back, spread, back_dot, spread_dot, table_sum = adjoint.m, adjoint.n, dotted.m, dotted.n, dotted.theta
    least = least_mass(theta)
    for member in range(some.first, some.last):
        here = slots + member * (k0 + k1) * lanes
        start = tables + member * k0 * k1 * cell_stride
        for side in range(U(2)):
            mine, other = here + side * k0 * lanes, here + (U(1) - side) * k0 * lanes
            table = pair_table(theta, theta_dot, start, side, k0, k1, cell_stride, lane_step, literal)
            r0 = side * k0 * lanes
            pair_moves(
                table, Message(n, n_base + other), Message(n_dot, dot_base + other), Message(rates, r0),
                Message(slopes, r0), lanes,
            )  # fmt: skip
            for place in range(table.rows * lanes):
                mass, value, change = rates[r0 + place], back[mine + place], back_dot[mine + place]
                rate = share_of(value * (1 - kept), mass, least)
                rates[r0 + place] = rate
                slopes[r0 + place] = share_of(change * (1 - kept), mass, least) - rate * slopes[r0 + place]
                back[mine + place] = value * kept
                back_dot[mine + place] = change * kept
            for b in range(table.columns):
                for lane in range(lanes):
                    total, change = theta.dtype.type(0.0), theta.dtype.type(0.0)
                    move = n_dot[dot_base + other + b * lanes + lane]
                    for a in range(table.rows):
                        cell = cell_at(table, a, b, lane)
                        rate = rates[r0 + a * lanes + lane]
                        total += theta[cell] * rate
                        change += theta[cell] * (slopes[r0 + a * lanes + lane] + rate * (theta_dot[cell] + move))
                    message = n[n_base + other + b * lanes + lane]
                    spread[other + b * lanes + lane] = message * total
                    spread_dot[other + b * lanes + lane] = message * change
        s0 = sums + member * k0 * k1 * lanes
        n0, n1 = n_base + here, n_base + here + k0 * lanes
        d0, d1 = dot_base + here, dot_base + here + k0 * lanes
        for a in range(k0):
            for b in range(k1):
                for lane in range(lanes):
                    cell = start + (a * k1 + b) * cell_stride + lane * lane_step
                    i, j = a * lanes + lane, b * lanes + lane
                    first = n[n1 + j] * (slopes[i] + rates[i] * (theta_dot[cell] + n_dot[d1 + j]))
                    second = n[n0 + i] * (
                        slopes[k0 * lanes + j] + rates[k0 * lanes + j] * (theta_dot[cell] + n_dot[d0 + i])
                    )
                    table_sum[s0 + (a * k1 + b) * lanes + lane] += theta[cell] * (first + second)


@fused_inlined
def weight_of(product, mass, least, semiring):
    """A cell's weight in its message: product / mass."""
    if len(semiring) < 2:
        return share_of(product, mass, least)
    return math.exp(product - mass) if mass > -np.inf else 0.0


@fused_callee
def table_moves(run, one, moving, tangent, scratch, static):
    """Unnormalised messages of a factor of any arity to some of its members, either domain, and by how much their
    logarithms move: in ``scratch``."""
    masses, partial, whole, moves, _ = scratch
    groups, cell_slots, semiring, lanes = run.plan.groups, run.plan.cell_slots, static.semiring, lanes_of(static.lanes)
    shared = groups[one.g, SHARED] == U(1)
    cell_stride = U(1) if shared else lanes
    lane_step = U(0) if shared else U(1)
    arity, cells, width = groups[one.g, ARITY], groups[one.g, CELLS], groups[one.g, WIDTH]
    t0 = groups[one.g, TABLE_START] + one.block * groups[one.g, TABLE_BLOCK] + one.member * cells * cell_stride
    here = (groups[one.g, SLOT_START] + one.member * width) * lanes
    theta, theta_dot, least = run.theta, tangent.theta, least_mass(run.theta)
    n, n0, n_dot, d0 = moving.n.data, moving.n.start + here, moving.dot.data, moving.dot.start + here
    for place in range(width * lanes):
        masses[place] = nothing(theta, semiring)
        moves[place] = 0
    for cell in range(cells):
        t, slots = t0 + cell * cell_stride, groups[one.g, CELL_SLOTS] + cell * arity
        cell_products(theta, t, lane_step, n, n0, cell_slots, slots, arity, partial, lanes, semiring)
        for position in range(one.first, one.last):
            slot = U(cell_slots[slots + position]) * lanes
            for lane in range(lanes):
                masses[slot + lane] = collect(masses[slot + lane], partial[position * lanes + lane], semiring)
    for cell in range(cells):
        t, slots = t0 + cell * cell_stride, groups[one.g, CELL_SLOTS] + cell * arity
        cell_products(theta, t, lane_step, n, n0, cell_slots, slots, arity, partial, lanes, semiring)
        cell_move(theta_dot, t, lane_step, n_dot, d0, cell_slots, slots, arity, whole, lanes)
        for position in range(one.first, one.last):
            slot = U(cell_slots[slots + position]) * lanes
            for lane in range(lanes):
                weight = weight_of(partial[position * lanes + lane], masses[slot + lane], least, semiring)
                moves[slot + lane] += weight * (whole[lane] - n_dot[d0 + slot + lane])


@spliced
def cell_move(theta_dot, t, lane_step, n_dot, d0, cell_slots, slots, arity, whole, lanes):
    """whole = by how much the logarithm of a cell moves with all its members' messages."""
    for lane in range(lanes):
        whole[lane] = theta_dot[t + lane * lane_step]
    for position in range(arity):
        slot = d0 + U(cell_slots[slots + position]) * lanes
        for lane in range(lanes):
            whole[lane] += n_dot[slot + lane]


@fused_callee
def table_push(run, one, moving, tangent, scratch, static):
    """Tangents of the messages of one factor to some of its members."""
    groups, cell_slots, lanes = run.plan.groups, run.plan.cell_slots, lanes_of(static.lanes)
    table_moves(run, one, moving, tangent, scratch, static)
    here = (groups[one.g, SLOT_START] + one.member * groups[one.g, WIDTH]) * lanes
    for position in range(one.first, one.last):
        offset = U(cell_slots[groups[one.g, CELL_SLOTS] + position]) * lanes
        states = U(run.plan.shapes[groups[one.g, SHAPE] + position])
        store_moves(Message(scratch[3], offset), Message(tangent.m, here + offset), states, run.kept, lanes)


@fused_callee
def table_back_hvp(run, one, moving, tangent, both, scratch, static):
    """Undoes messages of one factor as ``table_back`` does, with tangents, as in :func:`pair_back_hvp`."""
    groups, cell_slots, lane_tag, semiring = run.plan.groups, run.plan.cell_slots, static.lanes, static.semiring
    lanes, kept, adjoint, dotted = lanes_of(lane_tag), run.kept, both.adjoint, both.dotted
    masses, partial, whole, moves, parts_dot = scratch
    table_moves(run, one, moving, tangent, scratch, static)
    shared = groups[one.g, SHARED] == U(1)
    cell_stride = U(1) if shared else lanes
    lane_step = U(0) if shared else U(1)
    arity, cells, width = groups[one.g, ARITY], groups[one.g, CELLS], groups[one.g, WIDTH]
    t0 = groups[one.g, TABLE_START] + one.block * groups[one.g, TABLE_BLOCK] + one.member * cells * cell_stride
    s0 = U(dotted.theta_start[one.g, 0]) + one.block * U(dotted.theta_start[one.g, 1]) + one.member * cells * lanes
    here = (groups[one.g, SLOT_START] + one.member * width) * lanes
    slots0 = groups[one.g, CELL_SLOTS]
    theta, theta_dot, least = run.theta, tangent.theta, least_mass(run.theta)
    n, n0, n_dot, d0 = moving.n.data, moving.n.start + here, moving.dot.data, moving.dot.start + here
    back, spread, back_dot, spread_dot, table_sum = adjoint.m, adjoint.n, dotted.m, dotted.n, dotted.theta
    for position in range(one.first, one.last):
        slot, states = U(cell_slots[slots0 + position]) * lanes, U(run.plan.shapes[groups[one.g, SHAPE] + position])
        balance(back, here + slot, states, lane_tag)
        balance(back_dot, here + slot, states, lane_tag)
    spare = arity * lanes
    for cell in range(cells):
        t, slots = t0 + cell * cell_stride, slots0 + cell * arity
        cell_products(theta, t, lane_step, n, n0, cell_slots, slots, arity, partial, lanes, semiring)
        cell_move(theta_dot, t, lane_step, n_dot, d0, cell_slots, slots, arity, whole, lanes)
        for lane in range(lanes):
            partial[spare + lane] = 0
            parts_dot[spare + lane] = 0
        for position in range(one.first, one.last):
            slot, part = U(cell_slots[slots + position]) * lanes, position * lanes
            for lane in range(lanes):
                weight = (1 - kept) * weight_of(partial[part + lane], masses[slot + lane], least, semiring)
                value = back[here + slot + lane]
                move = whole[lane] - n_dot[d0 + slot + lane] - moves[slot + lane]
                partial[part + lane] = weight * value
                parts_dot[part + lane] = weight * (back_dot[here + slot + lane] + value * move)
                partial[spare + lane] += partial[part + lane]
                parts_dot[spare + lane] += parts_dot[part + lane]
        for position in range(arity):
            slot = here + U(cell_slots[slots + position]) * lanes
            inside = (position >= one.first) & (position < one.last)
            for lane in range(lanes):
                value, change = partial[spare + lane], parts_dot[spare + lane]
                if inside:
                    value -= partial[position * lanes + lane]
                    change -= parts_dot[position * lanes + lane]
                spread[slot + lane] += value
                spread_dot[slot + lane] += change
        for lane in range(lanes):
            table_sum[s0 + cell * lanes + lane] += parts_dot[spare + lane]
    low = here + U(cell_slots[slots0 + one.first]) * lanes
    high = here + (U(cell_slots[slots0 + one.last]) * lanes if one.last < arity else width * lanes)
    for place in range(low, high):
        back[place] *= kept
        back_dot[place] *= kept


@fused_inlined
def is_pair(groups, g, static):
    """Whether the kernels for pairs, in the probability domain, take a group."""
    size = U(len(static.literal))
    pair = len(static.semiring) < 2 and groups[g, ARITY] == U(2)
    if len(static.literal) > 0:
        pair = pair and groups[g, K0] == size and groups[g, K1] == size
    return pair


@fused_callee
def factors_push(run, share, moving, tangent, scratch, general, sharing, static):
    """Tangents of the flooding update of a thread's share of all factors. ``general`` and ``sharing`` are those of
    ``static``: a branch on an argument that is None is not even compiled."""
    groups = run.plan.groups
    for g in range(U(groups.shape[0])):
        members, arity = groups[g, MEMBERS], groups[g, ARITY]
        lo, hi = members * share.part // share.parts, members * (share.part + U(1)) // share.parts
        if general is not None and not is_pair(groups, g, static):
            for member in range(lo, hi):
                table_push(run, Factor(g, share.block, member, U(0), arity), moving, tangent, scratch, static)
        elif sharing is not None and groups[g, SHARED] == U(1):
            pair_push(run, Factors(g, share.block, lo, hi), moving, tangent, scratch, sharing, static)
        else:
            pair_push(run, Factors(g, share.block, lo, hi), moving, tangent, scratch, None, static)


@fused_callee
def factors_back_hvp(run, share, moving, tangent, both, scratch, general, sharing, static):
    """``factors_back`` with tangents."""
    groups, lanes = run.plan.groups, lanes_of(static.lanes)
    spread, spread_dot = both.adjoint.n, both.dotted.n
    for g in range(U(groups.shape[0])):
        members, arity, width = groups[g, MEMBERS], groups[g, ARITY], groups[g, WIDTH]
        lo, hi = members * share.part // share.parts, members * (share.part + U(1)) // share.parts
        if general is not None and not is_pair(groups, g, static):
            first = (groups[g, SLOT_START] + lo * width) * lanes
            for place in range(first, first + (hi - lo) * width * lanes):
                spread[place] = 0
                spread_dot[place] = 0
            for member in range(lo, hi):
                table_back_hvp(run, Factor(g, share.block, member, U(0), arity), moving, tangent, both, scratch, static)
        elif sharing is not None and groups[g, SHARED] == U(1):
            pair_back_hvp(run, Factors(g, share.block, lo, hi), moving, tangent, both, scratch, sharing, static)
        else:
            pair_back_hvp(run, Factors(g, share.block, lo, hi), moving, tangent, both, scratch, None, static)
