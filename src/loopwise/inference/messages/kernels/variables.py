"""Visits to variables: their messages to their factors, and their beliefs.

In: messages to variables. Out: messages to factors, in place; beliefs where asked for. The loop over variables is
inside, since a call costs as much as a variable's work; arrays are taken out of their tuples before it, since doing
so inside would count references.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from loopwise.compiled.arithmetic import U, add_mass, combine, inverse, lanes_of, one, probability, raise_to, remove
from loopwise.compiled.decorators import INLINED, fused_callee, fused_inlined
from loopwise.inference.messages.kernels.factors import pull_message
from loopwise.inference.messages.kernels.plan import told_by, type_of
from loopwise.inference.messages.kernels.views import states_of

# Products of more messages than this are rescaled on the way, so that a variable of degree 10,000 cannot underflow.
RESCALE_EVERY = U(16)


@fused_inlined
def ends_run(done, degree):
    """Whether a product is due to be rescaled: after a run of factors and, if it needed that, at its end."""
    return (done % RESCALE_EVERY == RESCALE_EVERY - U(1)) | ((degree > RESCALE_EVERY) & (done + U(1) == degree))


@fused_callee
def rescale(values, states, scratch, static):
    """Divides the values of each lane by their sum.

    A value that underflowed to zero stays zero while rescaling lifts the others, though they may have fallen further
    since: then what rescaling took out (``spent``) is below the floor, too, and ``lowest`` says that digits are lost.
    """
    lanes, semiring, spent, lowest = lanes_of(static.variable_lanes), static.semiring, scratch.spent, scratch.lowest
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


@fused_inlined
def roots_of_four(run, here, first, u0, states, total, static):
    """:func:`powered_messages` of every inner variable of a grid: with P the product of its four messages,
    root(P) / M1 = M2 M3 M4 / root(P), so that a root and a division do for all. False if a product is too small for
    that."""
    m, n, unary, edge_base = run.messages.m, run.messages.n, run.potentials.unary, run.plan.edge_base
    stride = lanes_of(static.lanes)
    floor = m.dtype.type(1e-280) if m.itemsize == 8 else m.dtype.type(1e-32)
    a, b = edge_base[first], edge_base[first + U(1)]
    c, d = edge_base[first + U(2)], edge_base[first + U(3)]
    large = True
    for state in range(states):
        mine, sent = here.m + state * stride, here.n + state * stride
        ma, mb, mc, md = m[mine + a], m[mine + b], m[mine + c], m[mine + d]
        left, right = ma * mb, mc * md
        product = left * right
        large &= product > floor
        root = unary[u0 + state] / np.sqrt(product)
        total[state] = root * product
        left *= root
        right *= root
        n[sent + a] = mb * right
        n[sent + b] = ma * right
        n[sent + c] = md * left
        n[sent + d] = mc * left
    return large


@fused_callee
def powered_messages(run, here, variable, u0, states, scratch, static):
    """With counting numbers: B = e^(theta/c) prod M^w, then N = B / M, unnormalised (Domke spec, section 3)."""
    m, n, unary, edge_base = run.messages.m, run.messages.n, run.potentials.unary, run.plan.edge_base
    total, exponents, power, semiring = scratch.total, run.plan.exponents, static.power, static.semiring
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    first, last = U(run.plan.edge_start[variable]), U(run.plan.edge_start[variable + U(1)])
    in_grid = len(power) == 1 and len(static.variable_lanes) == 0 and len(semiring) < 2 and last - first == U(4)
    if in_grid and roots_of_four(run, here, first, u0, states, total, static):
        return
    for place in range(states * lanes):
        total[place] = one(m, semiring)
    scratch.spent[:] = 1
    for at in range(first, last):
        base = here.m + edge_base[at]
        for state in range(states):
            for lane in range(lanes):
                value = m[base + state * stride + lane]
                if len(power) == 2:
                    value = raise_to(value, exponents[at], power, semiring)
                total[state * lanes + lane] = combine(total[state * lanes + lane], value, semiring)
        if ends_run(at - first, last - first):
            rescale(total, states, scratch, static)
    for place in range(states * lanes):
        value = total[place]
        if len(power) == 1:  # all messages enter by their square root: one root of their product
            value = raise_to(value, 0.5, power, semiring)
        total[place] = combine(value, unary[u0 + place], semiring)
    for at in range(first, last):
        base, there = here.m + edge_base[at], here.n + edge_base[at]
        for state in range(states):
            for lane in range(lanes):
                place = state * stride + lane
                n[there + place] = remove(total[state * lanes + lane], m[base + place], semiring)


def sends_powers(run, here, variable, u0, states, scratch, static):
    """:func:`powered_messages` where there are powers; whether there are. Otherwise their code is not even compiled."""


@overload(sends_powers, jit_options=INLINED)
def _sends_powers(run, here, variable, u0, states, scratch, static):
    def powers(run, here, variable, u0, states, scratch, static):
        powered_messages(run, here, variable, u0, states, scratch, static)
        return True

    if len(type_of(static, "power")) == 0:
        return lambda run, here, variable, u0, states, scratch, static: False
    return powers


@fused_callee
def update_belief(beliefs, b0, states, scratch, lane_tag, semiring):
    """Normalises ``scratch.total`` into ``beliefs``; ``scratch.change[lane]`` grows to the largest difference from the
    old belief."""
    total, change, lowest, lanes = scratch.total, scratch.change, scratch.lowest, lanes_of(lane_tag)
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
def visit_variables(run, here, span, order, pull, watch, scratch, static):
    """The variables ``span`` of ``order`` (None: as numbered) send their messages to their factors; with ``watch``
    their beliefs are renewed, too.

    Messages are prefix and suffix products, without division. If ``pull`` is given, a visit first renews those
    messages to the variable that it marks: this is the sequential schedule.
    """
    plan, unary, beliefs, semiring = run.plan, run.potentials.unary, run.messages.beliefs, static.semiring
    m, n, base, n_base = run.messages.m, run.messages.n, here.m, here.n
    state_start, edge_start, edge_base = plan.state_start, plan.edge_start, plan.edge_base
    total, suffix, spent = scratch.total, scratch.suffix, scratch.spent
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    step = stride if len(static.variable_lanes) < len(static.lanes) else U(1)
    for index in range(span.first, span.last):
        variable = index if order is None else U(order[index])
        first_state, states = U(state_start[variable]), states_of(plan, variable, static.uniform)
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        u0 = here.unary + first_state * lanes
        if pull is not None:
            for at in range(first, last):
                if pull[at]:
                    pull_message(run, here, told_by(plan, at, here.block), states, scratch, static)
        if sends_powers(run, here, variable, u0, states, scratch, static):
            pass
        elif len(static.variable_lanes) == 0 and last - first == U(4):
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
                mine, sent = base + edge_base[at], n_base + edge_base[at]
                for place in range(states * lanes):
                    value = total[place]
                    n[sent + place * step] = value
                    total[place] = combine(value, m[mine + place * step], semiring)
                if ends_run(at - first, last - first):
                    rescale(total, states, scratch, static)
            spent[:] = 1
            for back in range(last - first):
                mine, sent = base + edge_base[last - U(1) - back], n_base + edge_base[last - U(1) - back]
                for place in range(states * lanes):
                    value = suffix[place]
                    n[sent + place * step] = combine(n[sent + place * step], value, semiring)
                    suffix[place] = combine(value, m[mine + place * step], semiring)
                if ends_run(back, last - first):
                    rescale(suffix, states, scratch, static)
        if watch:
            place = here.beliefs + first_state * lanes
            update_belief(beliefs, place, states, scratch, static.variable_lanes, semiring)
