"""Visits to variables: their messages to their factors, and their beliefs.

In: messages to variables. Out: messages to factors, in place; beliefs where asked for. The loop over variables is
inside, since a call costs as much as a variable's work; arrays are taken out of their tuples before it, since doing
so inside would count references.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import U, add_mass, combine, inverse, lanes_of, one, probability, raise_to, remove
from loopwise.compiled.decorators import fused_callee, fused_inlined
from loopwise.inference.messages.kernels.messages import store_message, table_message, update_pair
from loopwise.inference.messages.kernels.pairs import send_one
from loopwise.inference.messages.kernels.plan import (
    ARITY,
    CELL_SLOTS,
    CELLS,
    K0,
    K1,
    SHARED,
    SLOT_START,
    TABLE_BLOCK,
    TABLE_START,
    WIDTH,
)
from loopwise.inference.messages.kernels.views import Message, Table

# Products of more messages than this are rescaled on the way, so that a variable of degree 10,000 cannot underflow.
RESCALE_EVERY = U(16)


@fused_inlined
def ends_run(done, degree):
    """Whether a product is due to be rescaled: after a run of factors and, if it needed that, at its end."""
    return (done % RESCALE_EVERY == RESCALE_EVERY - U(1)) | ((degree > RESCALE_EVERY) & (done + U(1) == degree))


@fused_callee
def rescale(values, states, spent, lowest, lane_tag, semiring):
    """Divides the values of each lane by their sum.

    A value that underflowed to zero stays zero while rescaling lifts the others, though they may have fallen further
    since: then what rescaling took out (``spent``) is below the floor, too, and ``lowest`` says that digits are lost.
    """
    lanes = lanes_of(lane_tag)
    floor = values.dtype.type(1e-280) if values.itemsize == 8 else values.dtype.type(1e-32)
    for lane in range(lanes):
        mass, least = values[lane], values[lane]
        for state in range(U(1), states):
            mass = add_mass(mass, values[state * lanes + lane], semiring)
            least = min(least, values[state * lanes + lane])
        if len(semiring) < 2:
            spent[lane] *= mass
            if spent[lane] < floor and least <= floor * mass:
                lowest[lane] = 0
        share = inverse(mass, semiring)
        for state in range(states):
            values[state * lanes + lane] = combine(values[state * lanes + lane], share, semiring)


@fused_callee
def roots_of_four(unary, u0, m, n, m0, n0, edge_base, first, states, total, stride):
    """:func:`powered_messages` of every inner variable of a grid: with P the product of its four messages,
    root(P) / M1 = M2 M3 M4 / root(P), so that a root and a division do for all. False if a product is too small for
    that."""
    floor = m.dtype.type(1e-280) if m.itemsize == 8 else m.dtype.type(1e-32)
    a, b = edge_base[first], edge_base[first + U(1)]
    c, d = edge_base[first + U(2)], edge_base[first + U(3)]
    large = True
    for state in range(states):
        here, there = m0 + state * stride, n0 + state * stride
        ma, mb, mc, md = m[here + a], m[here + b], m[here + c], m[here + d]
        left, right = ma * mb, mc * md
        product = left * right
        large &= product > floor
        root = unary[u0 + state] / np.sqrt(product)
        total[state] = root * product
        left *= root
        right *= root
        n[there + a] = mb * right
        n[there + b] = ma * right
        n[there + c] = md * left
        n[there + d] = mc * left
    return large


@fused_callee
def powered_messages(
    unary,
    u0,
    m,
    n,
    m0,
    n0,
    edge_base,
    exponents,
    first,
    last,
    states,
    total,
    spent,
    lowest,
    stride_tag,
    lane_tag,
    power,
    semiring,
):
    """With counting numbers: B = e^(theta/c) prod M^w, then N = B / M, unnormalised (Domke spec, section 3)."""
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
    in_grid = len(power) == 1 and len(lane_tag) == 0 and len(semiring) < 2 and last - first == U(4)
    if in_grid and roots_of_four(unary, u0, m, n, m0, n0, edge_base, first, states, total, stride):
        return
    for place in range(states * lanes):
        total[place] = one(m, semiring)
    spent[:] = 1
    for at in range(first, last):
        base = m0 + edge_base[at]
        for state in range(states):
            for lane in range(lanes):
                value = m[base + state * stride + lane]
                if len(power) == 2:
                    value = raise_to(value, exponents[at], power, semiring)
                total[state * lanes + lane] = combine(total[state * lanes + lane], value, semiring)
        if ends_run(at - first, last - first):
            rescale(total, states, spent, lowest, lane_tag, semiring)
    for place in range(states * lanes):
        value = total[place]
        if len(power) == 1:  # all messages enter by their square root: one root of their product
            value = raise_to(value, 0.5, power, semiring)
        total[place] = combine(value, unary[u0 + place], semiring)
    for at in range(first, last):
        base = m0 + edge_base[at]
        there = n0 + edge_base[at]
        for state in range(states):
            for lane in range(lanes):
                place = state * stride + lane
                n[there + place] = remove(total[state * lanes + lane], m[base + place], semiring)


@fused_callee
def update_belief(total, beliefs, b0, change, lowest, states, lane_tag, semiring):
    """Normalises ``total`` into ``beliefs``; ``change[lane]`` grows to the largest difference from the old belief."""
    lanes = lanes_of(lane_tag)
    for lane in range(lanes):
        mass = total[lane]
        for state in range(U(1), states):
            mass = add_mass(mass, total[state * lanes + lane], semiring)
        lowest[lane] = min(lowest[lane], mass)
        share = inverse(mass, semiring)
        for state in range(states):
            place = state * lanes + lane
            value = probability(combine(total[place], share, semiring), semiring)
            change[lane] = max(change[lane], abs(value - beliefs[b0 + place]))
            beliefs[b0 + place] = value


@fused_callee
def pull_message(
    g, member, position, groups, cell_slots, block, theta, n, n_base, m, base, states, damping, fresh, partial, lowest,
    literal, general, sharing, lane_tag, semiring,
):  # fmt: skip
    """Renews the message of one factor to its member ``position``."""
    lanes = lanes_of(lane_tag)
    cell_stride, lane_step = lanes, U(1)
    if sharing is not None and groups[g, SHARED] == U(1):
        cell_stride, lane_step = U(1), U(0)
    slots = (groups[g, SLOT_START] + member * groups[g, WIDTH]) * lanes
    t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + member * groups[g, CELLS] * cell_stride
    k0, k1 = groups[g, K0], groups[g, K1]
    pair = groups[g, ARITY] == U(2)
    if len(literal) > 0:
        pair = pair and k0 == U(len(literal)) and k1 == U(len(literal))
        k0, k1 = U(len(literal)), U(len(literal))
    if general is not None and not pair:
        target = base + slots + U(cell_slots[groups[g, CELL_SLOTS] + position]) * lanes
        table_message(
            theta, t0, cell_stride, lane_step, n, n_base + slots, fresh, cell_slots, groups[g, CELL_SLOTS], groups[g,
            CELLS], groups[g, ARITY], position, states, partial, lane_tag, semiring,
        )  # fmt: skip
        store_message(fresh, U(0), m, target, states, damping, lowest, lanes, semiring)
    else:
        mine = base + slots if position == U(0) else base + slots + k0 * lanes
        other = n_base + slots + k0 * lanes if position == U(0) else n_base + slots
        if len(literal) > 0:
            rows, columns = U(len(literal)), U(len(literal))
        else:
            rows, columns = (k0, k1) if position == U(0) else (k1, k0)
        row_stride, column_stride = (k1, U(1)) if position == U(0) else (U(1), k1)
        update_pair(
            theta, t0, cell_stride, lane_step, n, other, fresh, m, mine, rows, row_stride, columns, column_stride,
            damping, lowest, lanes, semiring,
        )  # fmt: skip


@fused_callee
def visit_variables(
    begin, end, order, pull, plan, block, theta, unary, unary_base, flow, base, n_base, belief_base, watch, damping,
    scratch, literal, general, sharing, quick, uniform, stride_tag, lane_tag, power, semiring,
):  # fmt: skip
    """Variables ``begin`` to ``end`` of ``order`` (None: as numbered) send their messages to their factors, from
    ``flow.m`` at ``base`` to ``flow.n`` at ``n_base``.

    Messages are prefix and suffix products, without division. If ``pull`` is given, a visit first renews those
    messages to the variable that it marks: this is the sequential schedule. ``quick`` (not None) promises one example,
    probabilities, no damping and only pair factors of the literal size: their messages are then worked out in place,
    since a call for each would cost more than the message. ``uniform`` (not None) is as long as every variable's
    cardinality.
    """
    state_start, edge_start, edge_base, exponents = (
        plan.state_start,
        plan.edge_start,
        plan.edge_base,
        plan.exponents,
    )
    m, n, beliefs = flow.m, flow.n, flow.beliefs
    total, suffix, spent = scratch.total, scratch.suffix, scratch.spent
    change, lowest = scratch.change, scratch.lowest
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
    step = stride if len(lane_tag) < len(stride_tag) else U(1)
    if pull is not None:
        groups, edge_group, edge_member = plan.groups, plan.edge_group, plan.edge_member
        edge_position, cell_slots, fresh, partial = (
            plan.edge_position,
            plan.cell_slots,
            scratch.fresh,
            scratch.partial,
        )
    for index in range(begin, end):
        variable = index if order is None else U(order[index])
        first_state = U(state_start[variable])
        states = U(state_start[variable + U(1)]) - first_state if uniform is None else U(len(uniform))
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        u0 = unary_base + first_state * lanes
        if pull is not None:
            for at in range(first, last):
                if not pull[at]:
                    continue
                if quick is not None:
                    size = U(len(literal))
                    g = U(edge_group[at])
                    t0 = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + U(edge_member[at]) * size * size
                    mine, first_side = base + edge_base[at], edge_position[at] == U(0)
                    other = n_base + (edge_base[at] + size if first_side else edge_base[at] - size)
                    mass = send_one(
                        Table(theta, t0), Message(n, other), Message(m, mine), edge_position[at], literal, semiring
                    )
                    lowest[0] = min(lowest[0], mass)
                else:
                    pull_message(
                        U(edge_group[at]), U(edge_member[at]), U(edge_position[at]), groups, cell_slots, block, theta,
                        n, n_base, m, base, states, damping, fresh, partial, lowest, literal, general, sharing,
                        lane_tag, semiring,
                    )  # fmt: skip
        if len(power) > 0:
            powered_messages(
                unary, u0, m, n, base, n_base, edge_base, exponents, first, last, states, total, spent, lowest,
                stride_tag, lane_tag, power, semiring,
            )  # fmt: skip
        elif len(lane_tag) == 0 and last - first == U(4):
            # Every inner variable of a grid: the four products share their halves.
            a, b = base + edge_base[first], base + edge_base[first + U(1)]
            c, d = base + edge_base[first + U(2)], base + edge_base[first + U(3)]
            for state in range(states):
                o = state * stride
                ma, mb, mc, md = m[a + o], m[b + o], m[c + o], m[d + o]
                left = combine(combine(ma, mb, semiring), unary[u0 + state], semiring)
                right = combine(mc, md, semiring)
                outside = combine(right, unary[u0 + state], semiring)
                o += n_base - base
                n[a + o] = combine(mb, outside, semiring)
                n[b + o] = combine(ma, outside, semiring)
                n[c + o] = combine(md, left, semiring)
                n[d + o] = combine(mc, left, semiring)
                total[state] = combine(left, right, semiring)
        else:
            # Where lanes are as wide as the stride, all states and lanes of a message stand in one row.
            for place in range(states * lanes):
                total[place] = unary[u0 + place]
                suffix[place] = one(m, semiring)
            spent[:] = 1
            for at in range(first, last):
                here, there = base + edge_base[at], n_base + edge_base[at]
                for place in range(states * lanes):
                    value = total[place]
                    n[there + place * step] = value
                    total[place] = combine(value, m[here + place * step], semiring)
                if ends_run(at - first, last - first):
                    rescale(total, states, spent, lowest, lane_tag, semiring)
            spent[:] = 1
            for back in range(last - first):
                here, there = base + edge_base[last - U(1) - back], n_base + edge_base[last - U(1) - back]
                for place in range(states * lanes):
                    value = suffix[place]
                    n[there + place * step] = combine(n[there + place * step], value, semiring)
                    suffix[place] = combine(value, m[here + place * step], semiring)
                if ends_run(back, last - first):
                    rescale(suffix, states, spent, lowest, lane_tag, semiring)
        if watch:
            update_belief(total, beliefs, belief_base + first_state * lanes, change, lowest, states, lane_tag, semiring)
