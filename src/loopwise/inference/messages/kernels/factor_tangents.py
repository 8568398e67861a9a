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

from loopwise.compiled.arithmetic import U, balance, lanes_of
from loopwise.compiled.decorators import fused_callee, fused_inlined, spliced
from loopwise.inference.messages.kernels.factor_adjoints import cell_masses, cell_products
from loopwise.inference.messages.kernels.pairs import is_pair, least_mass, share_of
from loopwise.inference.messages.kernels.plan import (
    ARITY,
    MEMBERS,
    SHAPE,
    SHARED,
    SLOT_START,
    WIDTH,
    Factor,
    Factors,
    of_share,
)
from loopwise.inference.messages.kernels.views import (
    Message,
    at,
    beyond,
    cell_at,
    cells_of,
    factor_start,
    pair_sizes,
    pair_table,
    put,
    slot_at,
    sums_start,
    tables_start,
    value_at,
)


class Moving(NamedTuple):
    """Messages to the factors of a block, and by how much their logarithms move."""

    n: Any  # Message
    dot: Any


class Both(NamedTuple):
    """Adjoints (:class:`~loopwise.inference.messages.kernels.plan.Adjoint`), and by how much they move."""

    adjoint: Any
    dotted: Any


@spliced
def pair_moves(table, table_dot, n, dot, masses, moves, lanes):
    """Unnormalised messages of a pair factor to one member, and by how much their logarithms move."""
    least = least_mass(table.data)
    for a in range(table.rows):
        for lane in range(lanes):
            mass, change = table.data.dtype.type(0.0), table.data.dtype.type(0.0)
            for b in range(table.columns):
                cell = cell_at(table, a, b, lane)
                value = table.data[cell] * at(n, b * lanes + lane)
                mass += value
                change += value * (table_dot[cell] + at(dot, b * lanes + lane))
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
    groups, lanes = run.plan.groups, lanes_of(static.lanes)
    sizes, tables = pair_sizes(groups, some.g, static.literal), tables_start(groups, some)
    cells = sizes[0] * sizes[1] * (lanes if shared is None else U(1))
    theta, theta_dot, m_dot = run.theta, tangent.theta, tangent.m
    masses, moves = Message(scratch.rates, U(0)), Message(scratch.moves, U(0))
    for member in range(some.first, some.last):
        here = factor_start(groups, Factor(some.g, some.block, member, U(0), U(2)), static)
        for side in range(U(2)):
            mine, other = here + side * sizes[0] * lanes, here + (U(1) - side) * sizes[0] * lanes
            table = pair_table(theta, tables + member * cells, side, sizes, shared, static)
            pair_moves(table, theta_dot, beyond(moving.n, other), beyond(moving.dot, other), masses, moves, lanes)
            store_moves(moves, Message(m_dot, mine), table.rows, run.kept, lanes)


@fused_callee
def pair_back_hvp(run, some, moving, tangent, both, scratch, shared, static):
    """Undoes both messages of some pair factors as ``pair_back`` does, with tangents: those of adjoints go to
    ``both.dotted``, and only those of the tables are summed up."""
    groups, lanes, kept, adjoint, dotted = run.plan.groups, lanes_of(static.lanes), run.kept, both.adjoint, both.dotted
    sizes, tables = pair_sizes(groups, some.g, static.literal), tables_start(groups, some)
    k0, k1 = sizes
    cells, sums = k0 * k1 * (lanes if shared is None else U(1)), sums_start(dotted, some)
    theta, theta_dot, rates, slopes = run.theta, tangent.theta, scratch.rates, scratch.moves
    n, n_base, n_dot, dot_base = moving.n.data, moving.n.start, moving.dot.data, moving.dot.start
    back, spread, back_dot, spread_dot, table_sum = adjoint.m, adjoint.n, dotted.m, dotted.n, dotted.theta
    least = least_mass(theta)
    for member in range(some.first, some.last):
        here, start = (
            factor_start(groups, Factor(some.g, some.block, member, U(0), U(2)), static),
            tables + member * cells,
        )
        for side in range(U(2)):
            mine, other, r0 = here + side * k0 * lanes, here + (U(1) - side) * k0 * lanes, side * k0 * lanes
            table = pair_table(theta, start, side, sizes, shared, static)
            pair_moves(
                table, theta_dot, Message(n, n_base + other), Message(n_dot, dot_base + other), Message(rates, r0),
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
        table, s0 = pair_table(theta, start, U(0), sizes, shared, static), sums + member * k0 * k1 * lanes
        n0, n1 = n_base + here, n_base + here + k0 * lanes
        d0, d1 = dot_base + here, dot_base + here + k0 * lanes
        for a in range(k0):
            for b in range(k1):
                for lane in range(lanes):
                    cell, i, j = cell_at(table, a, b, lane), a * lanes + lane, b * lanes + lane
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


@spliced
def cell_move(table, cell, dot, whole, lanes):
    """whole = by how much the logarithm of a cell moves with all its members' messages; ``table`` has the moves of the
    cells by themselves."""
    for lane in range(lanes):
        whole[lane] = value_at(table, cell, lane)
    for position in range(table.arity):
        slot = slot_at(table, cell, position) * lanes
        for lane in range(lanes):
            whole[lane] += at(dot, slot + lane)


@fused_callee
def table_moves(run, one, moving, tangent, scratch, static):
    """Unnormalised messages of a factor of any arity to some of its members, either domain, and by how much their
    logarithms move: in ``scratch``."""
    masses, partial, whole, moves, _ = scratch
    semiring, lanes, here = static.semiring, lanes_of(static.lanes), factor_start(run.plan.groups, one, static)
    table, table_dot = cells_of(run.plan, run.theta, one, static), cells_of(run.plan, tangent.theta, one, static)
    n, dot, least = beyond(moving.n, here), beyond(moving.dot, here), least_mass(masses)
    for place in range(table.width * lanes):
        moves[place] = 0
    cell_masses(table, (one.first, one.last), n, masses, partial, lanes, semiring)
    for cell in range(table.cells):
        cell_products(table, cell, n, partial, lanes, semiring)
        cell_move(table_dot, cell, dot, whole, lanes)
        for position in range(one.first, one.last):
            slot = slot_at(table, cell, position) * lanes
            for lane in range(lanes):
                weight = weight_of(partial[position * lanes + lane], masses[slot + lane], least, semiring)
                moves[slot + lane] += weight * (whole[lane] - at(dot, slot + lane))


@fused_callee
def table_push(run, one, moving, tangent, scratch, static):
    """Tangents of the messages of one factor to some of its members."""
    plan, lanes, here = run.plan, lanes_of(static.lanes), factor_start(run.plan.groups, one, static)
    table_moves(run, one, moving, tangent, scratch, static)
    table = cells_of(plan, run.theta, one, static)
    for position in range(one.first, one.last):
        offset, states = slot_at(table, U(0), position) * lanes, U(plan.shapes[plan.groups[one.g, SHAPE] + position])
        store_moves(Message(scratch.moves, offset), Message(tangent.m, here + offset), states, run.kept, lanes)


@fused_callee
def table_back_hvp(run, one, moving, tangent, both, scratch, static):
    """Undoes messages of one factor as ``undo_table_messages`` does, with tangents, as in :func:`pair_back_hvp`."""
    plan, semiring, lanes, kept = run.plan, static.semiring, lanes_of(static.lanes), run.kept
    masses, partial, whole, moves, parts_dot = scratch
    table_moves(run, one, moving, tangent, scratch, static)
    table, table_dot = cells_of(plan, run.theta, one, static), cells_of(plan, tangent.theta, one, static)
    here, first_sum = (
        factor_start(plan.groups, one, static),
        sums_start(both.dotted, one) + one.member * table.cells * lanes,
    )
    n, dot, least = beyond(moving.n, here), beyond(moving.dot, here), least_mass(masses)
    back, spread = both.adjoint.m, both.adjoint.n
    back_dot, spread_dot, table_sum = both.dotted.m, both.dotted.n, both.dotted.theta
    for position in range(one.first, one.last):
        slot, states = slot_at(table, U(0), position) * lanes, U(plan.shapes[plan.groups[one.g, SHAPE] + position])
        balance(back, here + slot, states, static.lanes)
        balance(back_dot, here + slot, states, static.lanes)
    spare = table.arity * lanes
    for cell in range(table.cells):
        cell_products(table, cell, n, partial, lanes, semiring)
        cell_move(table_dot, cell, dot, whole, lanes)
        for lane in range(lanes):
            partial[spare + lane] = 0
            parts_dot[spare + lane] = 0
        for position in range(one.first, one.last):
            slot, part = slot_at(table, cell, position) * lanes, position * lanes
            for lane in range(lanes):
                weight = (1 - kept) * weight_of(partial[part + lane], masses[slot + lane], least, semiring)
                value = back[here + slot + lane]
                move = whole[lane] - at(dot, slot + lane) - moves[slot + lane]
                partial[part + lane] = weight * value
                parts_dot[part + lane] = weight * (back_dot[here + slot + lane] + value * move)
                partial[spare + lane] += partial[part + lane]
                parts_dot[spare + lane] += parts_dot[part + lane]
        for position in range(table.arity):
            slot = here + slot_at(table, cell, position) * lanes
            inside = (position >= one.first) & (position < one.last)
            for lane in range(lanes):
                value, change = partial[spare + lane], parts_dot[spare + lane]
                if inside:
                    value -= partial[position * lanes + lane]
                    change -= parts_dot[position * lanes + lane]
                spread[slot + lane] += value
                spread_dot[slot + lane] += change
        for lane in range(lanes):
            table_sum[first_sum + cell * lanes + lane] += parts_dot[spare + lane]
    low = here + slot_at(table, U(0), one.first) * lanes
    high = here + (slot_at(table, U(0), one.last) if one.last < table.arity else table.width) * lanes
    for place in range(low, high):
        back[place] *= kept
        back_dot[place] *= kept


@fused_inlined
def takes_pair(groups, g, static):
    """Whether the kernels for pairs, in the probability domain, take a group."""
    return len(static.semiring) < 2 and is_pair(groups, g, static)


@fused_callee
def factors_push(run, share, moving, tangent, scratch, general, sharing, static):
    """Tangents of the flooding update of a thread's share of all factors. ``general`` and ``sharing`` are those of
    ``static``: a branch on an argument that is None is not even compiled."""
    groups = run.plan.groups
    for g in range(U(groups.shape[0])):
        span, arity = of_share(groups[g, MEMBERS], share), groups[g, ARITY]
        some = Factors(g, share.block, span.first, span.last)
        if general is not None and not takes_pair(groups, g, static):
            for member in range(some.first, some.last):
                table_push(run, Factor(g, share.block, member, U(0), arity), moving, tangent, scratch, static)
        elif sharing is not None and groups[g, SHARED] == U(1):
            pair_push(run, some, moving, tangent, scratch, sharing, static)
        else:
            pair_push(run, some, moving, tangent, scratch, None, static)


@fused_callee
def factors_back_hvp(run, share, moving, tangent, both, scratch, general, sharing, static):
    """``factors_back`` with tangents."""
    groups, lanes = run.plan.groups, lanes_of(static.lanes)
    spread, spread_dot = both.adjoint.n, both.dotted.n
    for g in range(U(groups.shape[0])):
        span, arity, width = of_share(groups[g, MEMBERS], share), groups[g, ARITY], groups[g, WIDTH]
        some = Factors(g, share.block, span.first, span.last)
        if general is not None and not takes_pair(groups, g, static):
            first = (groups[g, SLOT_START] + some.first * width) * lanes
            for place in range(first, first + (some.last - some.first) * width * lanes):
                spread[place] = 0
                spread_dot[place] = 0
            for member in range(some.first, some.last):
                table_back_hvp(run, Factor(g, share.block, member, U(0), arity), moving, tangent, both, scratch, static)
        elif sharing is not None and groups[g, SHARED] == U(1):
            pair_back_hvp(run, some, moving, tangent, both, scratch, sharing, static)
        else:
            pair_back_hvp(run, some, moving, tangent, both, scratch, None, static)
