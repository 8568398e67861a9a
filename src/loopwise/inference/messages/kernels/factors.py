"""All factors of a block updated once; factor beliefs.

In: the flat arrays of one block. Out: messages to variables, or factor beliefs, in place.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from loopwise.compiled.arithmetic import U, add_mass, combine, inverse, lanes_of, nothing, probability
from loopwise.compiled.decorators import INLINED, fused_callee, fused_kernel
from loopwise.inference.messages.kernels.contract import contract_step
from loopwise.inference.messages.kernels.messages import pair_message, store_message, table_messages
from loopwise.inference.messages.kernels.pairs import is_literal, pair_step, suited
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


@fused_callee
def log_step(plan, g, block, first, last, theta, flow, base, n_base, damping, scratch, shared, lane_tag, semiring):
    """Messages of the factors ``first`` to ``last`` of group ``g``, any arity, log domain."""
    lanes = lanes_of(lane_tag)
    cell_stride = lanes if shared is None else U(1)
    lane_step = U(1) if shared is None else U(0)
    groups, cell_slots = plan.groups, plan.cell_slots
    arity, width, cells = groups[g, ARITY], groups[g, WIDTH], groups[g, CELLS]
    k0, k1 = groups[g, K0], groups[g, K1]
    tables = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK]
    slots = groups[g, SLOT_START] * lanes
    m, n, fresh, partial, lowest = flow.m, flow.n, scratch.fresh, scratch.partial, scratch.lowest
    for member in range(first, last):
        at = slots + member * width * lanes
        t0 = tables + member * cells * cell_stride
        if arity == U(2):
            for side in range(U(2)):  # a loop, not two copies: half the code to compile
                rows, columns = (k0, k1) if side == U(0) else (k1, k0)
                row_stride, column_stride = (k1, U(1)) if side == U(0) else (U(1), k1)
                pair_message(
                    theta, t0, cell_stride, lane_step, n, n_base + at + (U(1) - side) * k0 * lanes, fresh,
                    side * k0 * lanes, rows, row_stride, columns, column_stride, lanes, semiring,
                )  # fmt: skip
        else:
            table_messages(
                theta, t0, cell_stride, lane_step, n, n_base + at, fresh, cell_slots, groups[g, CELL_SLOTS], cells,
                arity, width, partial, lanes, semiring,
            )  # fmt: skip
        offset = U(0)
        for position in range(arity):
            states = U(plan.shapes[groups[g, SHAPE] + position])
            store_message(fresh, offset, m, base + at + offset, states, damping, lowest, lanes, semiring)
            offset += states * lanes


@fused_callee
def factor_step(
    plan, block, part, parts, theta, flow, base, n_base, damping, scratch, literal, general, sharing, lane_tag,
    semiring,
):  # fmt: skip
    """Messages of part ``part`` of ``parts`` of all factors of a block, from ``flow.n`` at ``n_base`` to ``flow.m`` at
    ``base``.

    ``general`` is None if the kernel for pairs of literal size takes every factor, ``sharing`` is None if every lane
    has its own tables: branches on None are not even compiled.
    """
    for g in range(U(plan.groups.shape[0])):
        members = plan.groups[g, MEMBERS]
        lo, hi = members * part // parts, members * (part + U(1)) // parts
        if sharing is not None and plan.groups[g, SHARED] == U(1):
            group_step(
                plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, sharing,
                lane_tag, semiring,
            )  # fmt: skip
        else:
            group_step(
                plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, None, lane_tag,
                semiring,
            )  # fmt: skip


def group_step(
    plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, shared, lane_tag, semiring,
):  # fmt: skip
    """Messages of some factors of one group, by the kernel for it."""


@overload(group_step, jit_options=INLINED)
def _group_step(
    plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, shared, lane_tag, semiring,
):  # fmt: skip
    def logs(
        plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, shared, lane_tag,
        semiring,
    ):  # fmt: skip
        log_step(
            plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, shared, lane_tag, semiring,
        )  # fmt: skip

    def tables(
        plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, shared, lane_tag,
        semiring,
    ):  # fmt: skip
        contract_step(
            plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, shared, lane_tag, semiring,
        )  # fmt: skip

    def pairs(
        plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, shared, lane_tag,
        semiring,
    ):  # fmt: skip
        pair_step(
            plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, shared, lane_tag, semiring,
        )  # fmt: skip

    def both(
        plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, general, shared, lane_tag,
        semiring,
    ):  # fmt: skip
        if is_literal(plan, g, literal):
            pair_step(
                plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, literal, shared, lane_tag,
                semiring,
            )  # fmt: skip
        else:
            contract_step(
                plan, g, block, lo, hi, theta, flow, base, n_base, damping, scratch, shared, lane_tag, semiring,
            )  # fmt: skip

    return suited(literal, general, semiring, logs, tables, pairs, both)


@fused_kernel
def factor_beliefs(plan, g, blocks, theta, n, out, lane_tag, semiring):
    """Normalised beliefs theta(cell) prod n of the factors of group ``g``, laid out ``[block, member, cell, lane]``."""
    lanes = lanes_of(lane_tag)
    groups, cell_slots = plan.groups, plan.cell_slots
    shared = groups[g, SHARED] == U(1)
    cell_stride = U(1) if shared else lanes
    lane_step = U(0) if shared else U(1)
    arity, width, cells, members = groups[g, ARITY], groups[g, WIDTH], groups[g, CELLS], groups[g, MEMBERS]
    mass = np.empty(lanes, dtype=out.dtype)
    for at in range(U(blocks) * members):
        block, member = at // members, at % members
        o0 = at * cells * lanes
        t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + member * cells * cell_stride
        n0 = (block * plan.slots + groups[g, SLOT_START] + member * width) * lanes
        mass[:] = nothing(out, semiring)
        for cell in range(cells):
            o = o0 + cell * lanes
            for lane in range(lanes):
                out[o + lane] = theta[t0 + cell * cell_stride + lane * lane_step]
            for position in range(arity):
                source = n0 + U(cell_slots[groups[g, CELL_SLOTS] + cell * arity + position]) * lanes
                for lane in range(lanes):
                    out[o + lane] = combine(out[o + lane], n[source + lane], semiring)
            for lane in range(lanes):
                mass[lane] = add_mass(mass[lane], out[o + lane], semiring)
        for cell in range(cells):
            for lane in range(lanes):
                place = o0 + cell * lanes + lane
                out[place] = probability(combine(out[place], inverse(mass[lane], semiring), semiring), semiring)
