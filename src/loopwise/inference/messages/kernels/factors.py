"""All factors of a block updated once, or one message of one factor; factor beliefs.

In: the flat arrays of one block. Out: messages to variables, or factor beliefs, in place.
"""

from __future__ import annotations

import numpy as np
from numba.core.types import NoneType
from numba.extending import overload

from loopwise.compiled.arithmetic import U, add_mass, combine, inverse, lanes_of, nothing, probability
from loopwise.compiled.decorators import INLINED, fused_callee, fused_inlined, fused_kernel
from loopwise.inference.messages.kernels.contract import contract_step
from loopwise.inference.messages.kernels.messages import (
    pair_message,
    store_message,
    table_message,
    table_messages,
    update_pair,
)
from loopwise.inference.messages.kernels.pairs import is_literal, is_pair, pair_step, send_one, suited
from loopwise.inference.messages.kernels.plan import (
    ARITY,
    CELLS,
    MEMBERS,
    SHAPE,
    SHARED,
    Factor,
    Factors,
    of_share,
    type_of,
)
from loopwise.inference.messages.kernels.views import (
    Message,
    TableView,
    cells_of,
    factor_start,
    pair_sizes,
    pair_table,
    slot_at,
    tables_start,
    value_at,
)


@fused_callee
def log_step(run, here, some, scratch, shared, static):
    """Messages of some factors of one group, any arity, log domain."""
    plan, theta, semiring, lanes = run.plan, run.potentials.theta, static.semiring, lanes_of(static.lanes)
    groups, sizes = plan.groups, pair_sizes(plan.groups, some.g, static.literal)
    arity, shape = groups[some.g, ARITY], groups[some.g, SHAPE]
    tables, cells = tables_start(groups, some), groups[some.g, CELLS] * (lanes if shared is None else U(1))
    m, n, fresh, partial, lowest = run.messages.m, run.messages.n, scratch.fresh, scratch.partial, scratch.lowest
    for member in range(some.first, some.last):
        one = Factor(some.g, some.block, member, U(0), arity)
        place = factor_start(groups, one, static)
        if arity == U(2):
            for side in range(U(2)):  # a loop, not two copies: half the code to compile
                table = pair_table(theta, tables + member * cells, side, sizes, shared, static)
                told, other = side * sizes[0] * lanes, (U(1) - side) * sizes[0] * lanes
                pair_message(table, Message(n, here.n + place + other), fresh, told, lanes, semiring)
        else:
            table_messages(
                cells_of(plan, theta, one, static), Message(n, here.n + place), fresh, partial, lanes, semiring
            )
        offset = U(0)
        for position in range(arity):
            states = U(plan.shapes[shape + position])
            store_message(fresh, offset, m, here.m + place + offset, states, run.damping, lowest, lanes, semiring)
            offset += states * lanes


@fused_callee
def either_step(run, here, some, scratch, shared, static):
    """The same where some groups are pairs of literal size."""
    if is_literal(run.plan.groups, some.g, static):
        pair_step(run, here, some, scratch, shared, static)
    else:
        contract_step(run, here, some, scratch, shared, static)


def group_step(run, here, some, scratch, shared, static):
    """Messages of some factors of one group, by the kernel for it; ``shared`` (not None): all lanes read one table."""


@overload(group_step, jit_options=INLINED)
def _group_step(run, here, some, scratch, shared, static):
    return suited(static, log_step, contract_step, pair_step, either_step).py_func


@fused_callee
def factor_step(run, here, share, scratch, sharing, static):
    """Messages of a thread's share of all factors of a block. ``sharing`` is that of ``static``."""
    groups = run.plan.groups
    for g in range(U(groups.shape[0])):
        span = of_share(groups[g, MEMBERS], share)
        some = Factors(g, here.block, span.first, span.last)
        if sharing is not None and groups[g, SHARED] == U(1):
            group_step(run, here, some, scratch, sharing, static)
        else:
            group_step(run, here, some, scratch, None, static)


@fused_inlined
def pull_alone(run, here, one, states, scratch, static):
    """One message of a pair of literal size, one example: worked out in place, since a call would cost more."""
    groups, theta, m, n = run.plan.groups, run.potentials.theta, run.messages.m, run.messages.n
    size, place = U(len(static.literal)), factor_start(groups, one, static)
    told, other = (place, place + size) if one.first == U(0) else (place + size, place)
    mass = send_one(
        TableView(theta, tables_start(groups, one) + one.member * size * size), Message(n, here.n + other),
        Message(m, here.m + told), one.first, static.literal, static.semiring,
    )  # fmt: skip
    scratch.lowest[0] = min(scratch.lowest[0], mass)


@fused_callee
def pull_table(run, here, one, states, scratch, static):
    """One message of a factor of any arity, either domain."""
    m, n, lanes = run.messages.m, run.messages.n, lanes_of(static.lanes)
    table, place = cells_of(run.plan, run.potentials.theta, one, static), factor_start(run.plan.groups, one, static)
    told = here.m + place + slot_at(table, U(0), one.first) * lanes
    table_message(table, Message(n, here.n + place), one.first, states, scratch, static.lanes, static.semiring)
    store_message(scratch.fresh, U(0), m, told, states, run.damping, scratch.lowest, lanes, static.semiring)


@fused_callee
def pull_pair_of(run, here, one, scratch, shared, static):
    """One message of a pair factor; ``shared`` (not None): all lanes read one table."""
    groups, m, n, lanes = run.plan.groups, run.messages.m, run.messages.n, lanes_of(static.lanes)
    sizes, place, side = pair_sizes(groups, one.g, static.literal), factor_start(groups, one, static), one.first
    cells = sizes[0] * sizes[1] * (lanes if shared is None else U(1))
    table = pair_table(
        run.potentials.theta, tables_start(groups, one) + one.member * cells, side, sizes, shared, static
    )
    told, other = (U(0), sizes[0] * lanes) if side == U(0) else (sizes[0] * lanes, U(0))
    source = Message(n, here.n + place + other)
    update_pair(table, source, m, here.m + place + told, run.damping, scratch, lanes, static.semiring)


@fused_callee
def pull_pair(run, here, one, scratch, sharing, static):
    """The same, whether lanes share its table or not."""
    if sharing is not None and run.plan.groups[one.g, SHARED] == U(1):
        pull_pair_of(run, here, one, scratch, sharing, static)
    else:
        pull_pair_of(run, here, one, scratch, None, static)


@fused_callee
def pull_only_pairs(run, here, one, states, scratch, static):
    """One message where all factors are pairs of literal size."""
    pull_pair(run, here, one, scratch, static.sharing, static)


@fused_callee
def pull_either(run, here, one, states, scratch, static):
    """One message where they are not."""
    if is_pair(run.plan.groups, one.g, static):
        pull_pair(run, here, one, scratch, static.sharing, static)
    else:
        pull_table(run, here, one, states, scratch, static)


def pull_message(run, here, one, states, scratch, static):
    """Renews the message of one factor to the first variable of ``one``, which has so many values, by the kernel for
    it."""


@overload(pull_message, jit_options=INLINED)
def _pull_message(run, here, one, states, scratch, static):
    if not isinstance(type_of(static, "single"), NoneType):
        return pull_alone.py_func
    return (pull_only_pairs if isinstance(type_of(static, "general"), NoneType) else pull_either).py_func


@fused_kernel
def factor_beliefs(plan, theta, g, blocks, n, out, static):
    """Normalised beliefs theta(cell) prod n of the factors of group ``g``, laid out ``[block, member, cell, lane]``."""
    lanes, semiring = lanes_of(static.lanes), static.semiring
    groups, arity = plan.groups, plan.groups[g, ARITY]
    cells, members = groups[g, CELLS], groups[g, MEMBERS]
    mass = np.empty(lanes, dtype=out.dtype)
    for place in range(U(blocks) * members):
        one = Factor(g, place // members, place % members, U(0), arity)
        table, first = cells_of(plan, theta, one, static), place * cells * lanes
        slots = one.block * plan.slots * lanes + factor_start(groups, one, static)
        mass[:] = nothing(out, semiring)
        for cell in range(cells):
            o = first + cell * lanes
            for lane in range(lanes):
                out[o + lane] = value_at(table, cell, lane)
            for position in range(arity):
                source = slots + slot_at(table, cell, position) * lanes
                for lane in range(lanes):
                    out[o + lane] = combine(out[o + lane], n[source + lane], semiring)
            for lane in range(lanes):
                mass[lane] = add_mass(mass[lane], out[o + lane], semiring)
        for cell in range(cells):
            for lane in range(lanes):
                o = first + cell * lanes + lane
                out[o] = probability(combine(out[o], inverse(mass[lane], semiring), semiring), semiring)
