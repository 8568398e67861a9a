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
from numba.core.types import NoneType
from numba.extending import overload

from loopwise.compiled.arithmetic import U, balance, collect, combine, lanes_of, nothing, one
from loopwise.compiled.decorators import INLINED, fused_callee, fused_inlined, spliced
from loopwise.inference.messages.kernels.contract import contract_back
from loopwise.inference.messages.kernels.pairs import is_literal, is_pair, least_mass, pair_back, share_of, suited
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
    type_of,
)
from loopwise.inference.messages.kernels.views import (
    Message,
    at,
    cell_at,
    cells_of,
    factor_start,
    pair_sizes,
    pair_table,
    slot_at,
    sums_start,
    tables_start,
    value_at,
)


@spliced
def pair_rates(table, n, back, back_start, kept, rates, lanes):
    """rates = adjoint of the message / its unnormalised value; of the adjoint, in ``back`` from ``back_start`` on,
    stays what damping kept of the old."""
    x, least = table.data, least_mass(table.data)
    for a in range(table.rows):
        for lane in range(lanes):
            total = x.dtype.type(0.0)
            for b in range(table.columns):
                total += x[cell_at(table, a, b, lane)] * at(n, b * lanes + lane)
            adjoint = back[back_start + a * lanes + lane]
            rates[a * lanes + lane] = share_of(adjoint * (1 - kept), total, least)
            back[back_start + a * lanes + lane] = adjoint * kept


@spliced
def pair_sources(table, n, spread, spread_start, rates, lanes):
    """Adjoint of the message that the undone one was computed from: n(b) sum_a table(a, b) r(a)."""
    x = table.data
    for b in range(table.columns):
        for lane in range(lanes):
            total = x.dtype.type(0.0)
            for a in range(table.rows):
                total += x[cell_at(table, a, b, lane)] * rates[a * lanes + lane]
            spread[spread_start + b * lanes + lane] += at(n, b * lanes + lane) * total


@fused_callee
def undo_pair_of(run, one, adjoint, scratch, shared, static):
    """Undoes one message of one pair factor, probability domain; ``shared`` (not None): all lanes read one table."""
    groups, lanes, side = run.plan.groups, lanes_of(static.lanes), one.first
    theta, rates, sums, now = run.theta, scratch.rates, adjoint.theta, adjoint.now
    sizes, place = pair_sizes(groups, one.g, static.literal), factor_start(groups, one, static)
    cells = sizes[0] * sizes[1]
    start = tables_start(groups, one) + one.member * cells * (lanes if shared is None else U(1))
    table = pair_table(theta, start, side, sizes, shared, static)
    told, other = (U(0), sizes[0] * lanes) if side == U(0) else (sizes[0] * lanes, U(0))
    n, first_sum = Message(now, place + other), sums_start(adjoint, one) + one.member * cells * lanes
    pair_rates(table, n, adjoint.m, place + told, run.kept, rates, lanes)
    pair_sources(table, n, adjoint.n, place + other, rates, lanes)
    row, column = (sizes[1], U(1)) if side == U(0) else (U(1), sizes[1])
    for a in range(table.rows):
        for b in range(table.columns):
            here = first_sum + (a * row + b * column) * lanes
            for lane in range(lanes):
                sums[here + lane] += (
                    theta[cell_at(table, a, b, lane)] * rates[a * lanes + lane] * at(n, b * lanes + lane)
                )


@fused_callee
def undo_pair(run, one, adjoint, scratch, sharing, static):
    """The same, whether lanes share its table or not."""
    if sharing is not None and run.plan.groups[one.g, SHARED] == U(1):
        undo_pair_of(run, one, adjoint, scratch, sharing, static)
    else:
        undo_pair_of(run, one, adjoint, scratch, None, static)


@spliced
def cell_products(table, cell, n, partial, lanes, semiring):
    """partial[j] = table(cell) times the messages of all members but j, by prefix and suffix."""
    arity = table.arity
    for lane in range(lanes):
        partial[lane] = value_at(table, cell, lane)
    for position in range(U(1), arity):
        slot = slot_at(table, cell, position - U(1)) * lanes
        for lane in range(lanes):
            value = partial[(position - U(1)) * lanes + lane]
            partial[position * lanes + lane] = combine(value, at(n, slot + lane), semiring)
    for lane in range(lanes):
        partial[arity * lanes + lane] = one(partial, semiring)
    for step in range(arity):
        position = arity - U(1) - step
        slot = slot_at(table, cell, position) * lanes
        for lane in range(lanes):
            suffix = partial[arity * lanes + lane]
            partial[position * lanes + lane] = combine(partial[position * lanes + lane], suffix, semiring)
            partial[arity * lanes + lane] = combine(suffix, at(n, slot + lane), semiring)


@fused_inlined
def part_of(product, rate, adjoint, semiring):
    """A cell's part in its message's adjoint: product / mass x adjoint; ``rate`` is adjoint / mass, or the log mass."""
    if len(semiring) < 2:
        return product * rate
    return math.exp(product - rate) * adjoint if rate > -np.inf else adjoint * 0


@spliced
def cell_masses(table, members, n, masses, partial, lanes, semiring):
    """masses = the unnormalised messages of a factor to its variables ``members`` (first and last)."""
    for place in range(table.width * lanes):
        masses[place] = nothing(masses, semiring)
    for cell in range(table.cells):
        cell_products(table, cell, n, partial, lanes, semiring)
        for position in range(members[0], members[1]):
            slot = slot_at(table, cell, position) * lanes
            for lane in range(lanes):
                masses[slot + lane] = collect(masses[slot + lane], partial[position * lanes + lane], semiring)


@fused_callee
def undo_table_messages(run, one, n, adjoint, scratch, static):
    """Undoes the messages of one factor of any arity to some of its members, either domain; ``n``: messages to the
    factors of the block.

    Per cell and member i: G_i = theta prod_{j != i} n_j r_i; then member j gets the sum of all G_i but its own.
    """
    plan, groups, semiring, lanes = run.plan, run.plan.groups, static.semiring, lanes_of(static.lanes)
    table, place = cells_of(plan, run.theta, one, static), factor_start(groups, one, static)
    n, rates, partial, kept = Message(n.data, n.start + place), scratch.rates, scratch.partial, run.kept
    back, spread, sums = adjoint.m, adjoint.n, adjoint.theta
    first_sum = sums_start(adjoint, one) + one.member * table.cells * lanes
    # Unnormalised messages; in the probability domain the rates take their place.
    cell_masses(table, (one.first, one.last), n, rates, partial, lanes, semiring)
    low = slot_at(table, U(0), one.first) * lanes
    high = slot_at(table, U(0), one.last) * lanes if one.last < table.arity else table.width * lanes
    for position in range(one.first, one.last):
        slot = slot_at(table, U(0), position) * lanes
        balance(back, place + slot, U(plan.shapes[groups[one.g, SHAPE] + position]), static.lanes)
    for offset in range(low, high):
        if len(semiring) < 2:
            rates[offset] = share_of(back[place + offset], rates[offset], least_mass(rates))
    spare = table.arity * lanes
    for cell in range(table.cells):
        cell_products(table, cell, n, partial, lanes, semiring)
        for lane in range(lanes):
            partial[spare + lane] = 0
        for position in range(one.first, one.last):
            slot = slot_at(table, cell, position) * lanes
            for lane in range(lanes):
                product, adjoint_here = partial[position * lanes + lane], back[place + slot + lane]
                value = part_of(product, rates[slot + lane], adjoint_here, semiring) * (1 - kept)
                partial[position * lanes + lane] = value
                partial[spare + lane] += value
        for position in range(table.arity):
            slot, inside = slot_at(table, cell, position) * lanes, (position >= one.first) & (position < one.last)
            for lane in range(lanes):
                value = partial[spare + lane]
                if inside:
                    value -= partial[position * lanes + lane]
                spread[place + slot + lane] += value
        for lane in range(lanes):
            sums[first_sum + cell * lanes + lane] += partial[spare + lane]
    for offset in range(low, high):
        back[place + offset] *= kept


@fused_callee
def log_back(run, some, n, adjoint, scratch, shared, static):
    """Undoes the messages of some factors of one group, any arity, log domain."""
    groups, lanes, spread = run.plan.groups, lanes_of(static.lanes), adjoint.n
    width, arity = groups[some.g, WIDTH], groups[some.g, ARITY]
    here = (groups[some.g, SLOT_START] + some.first * width) * lanes
    for place in range(here, here + (some.last - some.first) * width * lanes):
        spread[place] = 0
    for member in range(some.first, some.last):
        undo_table_messages(run, Factor(some.g, some.block, member, U(0), arity), n, adjoint, scratch, static)


@fused_callee
def either_back(run, some, n, adjoint, scratch, shared, static):
    """The same where some groups are pairs of literal size."""
    if is_literal(run.plan.groups, some.g, static):
        pair_back(run, some, n, adjoint, scratch, shared, static)
    else:
        contract_back(run, some, n, adjoint, scratch, shared, static)


def group_back(run, some, n, adjoint, scratch, shared, static):
    """Undoes the messages of some factors of one group, by the kernel for it: the adjoint of ``group_step``."""


@overload(group_back, jit_options=INLINED)
def _group_back(run, some, n, adjoint, scratch, shared, static):
    return suited(static, log_back, contract_back, pair_back, either_back).py_func


@fused_callee
def factors_back(run, share, n, adjoint, scratch, sharing, static):
    """Undoes the flooding update of a thread's share of all factors: the adjoint of ``factor_step``. ``n``: messages to
    the factors of the block; ``sharing`` is that of ``static``.

    If damping keeps nothing of a message, the adjoints of messages to variables are used up, with anything left in
    them. Adjoints of messages to factors are overwritten.
    """
    groups = run.plan.groups
    for g in range(U(groups.shape[0])):
        span = of_share(groups[g, MEMBERS], share)
        some = Factors(g, share.block, span.first, span.last)
        if sharing is not None and groups[g, SHARED] == U(1):
            group_back(run, some, n, adjoint, scratch, sharing, static)
        else:
            group_back(run, some, n, adjoint, scratch, None, static)


@fused_callee
def back_only_pairs(run, one, adjoint, scratch, static):
    """One message where all factors are pairs of literal size."""
    undo_pair(run, one, adjoint, scratch, static.sharing, static)


@fused_callee
def back_either(run, one, adjoint, scratch, static):
    """One message where they are not, or in the log domain."""
    if len(static.semiring) < 2 and is_pair(run.plan.groups, one.g, static):
        undo_pair(run, one, adjoint, scratch, static.sharing, static)
    else:
        undo_table_messages(run, one, Message(adjoint.now, U(0)), adjoint, scratch, static)


def message_back(run, one, adjoint, scratch, static):
    """Undoes one message of one factor, to the first variable of ``one``: the adjoint of ``pull_message``. Reads
    messages to factors from ``adjoint.now``."""


@overload(message_back, jit_options=INLINED)
def _message_back(run, one, adjoint, scratch, static):
    return (back_only_pairs if isinstance(type_of(static, "general"), NoneType) else back_either).py_func
