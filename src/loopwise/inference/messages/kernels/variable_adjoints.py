"""Undoing visits to variables, and entering what the loss says.

In: adjoints of log messages ``n``. Out: adjoints of log messages ``m`` and of unary potentials, added in place. The
adjoint of :mod:`loopwise.inference.messages.kernels.variables`.

A visit is linear in the logarithms: B = u + sum_e w_e M_e, N_e = B - M_e. So with S = sum_e N_e' (primes are
adjoints): M_e' += w_e S - N_e', u' += S, and no value of the run is needed.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.arithmetic import U, balance, lanes_of
from loopwise.compiled.decorators import fused_callee, fused_inlined
from loopwise.inference.messages.kernels.views import at as value_of
from loopwise.inference.messages.kernels.views import states_of

# What happens to adjoints of messages when a visit is undone.
WRITE = U(0)  # those of messages to the variable are written over; they had nothing in them
ADD = U(1)  # they are added to
ADD_AND_CLEAR = U(2)  # and those of its messages to factors, now used up, are set to zero


@fused_callee
def variables_back(run, span, order, block, adjoint, how, scratch, static):
    """Undoes the visits to the variables ``span`` of ``order`` (None: as numbered).

    The adjoints of their messages to factors are used up; to set them to zero is needless where all factors are undone
    next, since that writes them anew.
    """
    plan, m, n, unary, total = run.plan, adjoint.m, adjoint.n, adjoint.unary, scratch.total
    state_start, edge_start, edge_base, exponents = plan.state_start, plan.edge_start, plan.edge_base, plan.exponents
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    step = stride if len(static.variable_lanes) < len(static.lanes) else U(1)
    u_base, adding = block * U(adjoint.unary_block), how != WRITE
    for index in range(span.first, span.last):
        variable = index if order is None else U(order[index])
        size, first_state = states_of(plan, variable, static.uniform) * lanes, U(state_start[variable])
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        u0 = u_base + first_state * lanes
        if len(static.variable_lanes) == 0 and last - first == U(4) and not adding:
            # Every inner variable of a grid: its four messages are read side by side.
            a, b = edge_base[first], edge_base[first + U(1)]
            c, d = edge_base[first + U(2)], edge_base[first + U(3)]
            wa, wb = exponents[first], exponents[first + U(1)]
            wc, wd = exponents[first + U(2)], exponents[first + U(3)]
            excess, whole = m.dtype.type(0.0), m.dtype.type(0.0)
            for place in range(size):
                o = place * step
                value = (n[a + o] + n[b + o]) + (n[c + o] + n[d + o])
                total[place] = value
                excess += value
                whole += abs(value)
            share = excess / whole if whole > 0 else excess
            for place in range(size):
                o = place * step
                value = total[place] - abs(total[place]) * share
                unary[u0 + place] += value
                m[a + o] = wa * value - n[a + o]
                m[b + o] = wb * value - n[b + o]
                m[c + o] = wc * value - n[c + o]
                m[d + o] = wd * value - n[d + o]
            continue
        for place in range(size):
            total[place] = 0
        for at in range(first, last):
            here = edge_base[at]
            for place in range(size):
                total[place] += n[here + place * step]
        if len(static.variable_lanes) == 0:  # as balance does, but a call would cost more than the work
            excess, whole = m.dtype.type(0.0), m.dtype.type(0.0)
            for place in range(size):
                excess += total[place]
                whole += abs(total[place])
            share = excess / whole if whole > 0 else excess
            for place in range(size):
                total[place] -= abs(total[place]) * share
        else:
            balance(total, U(0), size // lanes, static.variable_lanes)
        for place in range(size):
            unary[u0 + place] += total[place]
        for at in range(first, last):
            here, weight = edge_base[at], exponents[at]
            if adding:
                for place in range(size):
                    m[here + place * step] += weight * total[place] - n[here + place * step]
            else:
                for place in range(size):
                    m[here + place * step] = weight * total[place] - n[here + place * step]
            if how == ADD_AND_CLEAR:
                for place in range(size):
                    n[here + place * step] = 0


@fused_inlined
def finite_log(message, semiring):
    """The logarithm of a message; 0 for a forbidden value, which no derivative sees."""
    if len(semiring) >= 2:
        return message if message > -np.inf else 0.0
    return math.log(message) if message > 0 else 0.0


@fused_callee
def exponents_back(run, span, m, adjoint, static):
    """Adjoint of the powers with which messages enter the variables ``span``: S times the log message. To be called
    before the visits are undone. ``m``: messages after the step."""
    plan, lanes, stride = run.plan, lanes_of(static.variable_lanes), lanes_of(static.lanes)
    for variable in range(span.first, span.last):
        first, last = U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])
        for state in range(states_of(plan, variable, static.uniform)):
            for lane in range(lanes):
                place = state * stride + lane
                total = adjoint.n.dtype.type(0.0)
                for at in range(first, last):
                    total += adjoint.n[plan.edge_base[at] + place]
                for at in range(first, last):
                    message = value_of(m, plan.edge_base[at] + place)
                    adjoint.exponents[at] += total * finite_log(message, static.semiring)


@fused_callee
def damping_back(before, after, span, adjoint, kept, semiring):
    """Adjoint of the damping, from messages ``before`` and ``after`` a step: new = (1 - d) calculated + d old in
    logarithms, so d new / d d = old - calculated = (old - new) / (1 - d)."""
    for place in range(span.first, span.last):
        change = finite_log(value_of(before, place), semiring) - finite_log(value_of(after, place), semiring)
        adjoint.damping[0] += adjoint.m[place] * change / (1 - kept)


@fused_callee
def enter_seeds(run, span, block, sweep, m, adjoint, adding, static):
    """Adds what the loss says of the beliefs and messages after ``sweep`` to the adjoints, for the variables ``span``;
    of the last sweep only for the examples that stopped there. ``m``: the messages after the sweep, looked at only if
    the exponents want an adjoint. If anything was added to the adjoints of messages to variables, which are empty
    unless ``adding``, the answer is True: they must not be written over then."""
    plan, seeds, examples = run.plan, run.seeds, U(run.examples)
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    states, slots = U(plan.state_start[-1]), U(plan.slots) * stride
    traced = seeds.trace.shape[0] > 0
    ending = False
    for lane in range(lanes):
        example = block * lanes + lane
        ending = ending or (example < examples and seeds.last[example] == sweep)
    if not (traced or ending):
        return adding
    sweeps = U(seeds.trace.shape[0]) // max(U(1), U(seeds.unary.shape[0]))
    u_base = block * U(adjoint.unary_block)
    for variable in range(span.first, span.last):
        first, last = U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])
        first_state = U(plan.state_start[variable])
        for state in range(U(plan.state_start[variable + U(1)]) - first_state):
            for lane in range(lanes):
                example = block * lanes + lane
                stops = example < examples and seeds.last[example] == sweep
                place = state * stride + lane
                row = (first_state + state) * lanes + lane
                total = adjoint.m.dtype.type(0.0)
                if stops:
                    total += seeds.unary[block * states * lanes + row]
                if traced:
                    total += seeds.trace[(block * sweeps + U(sweep)) * states * lanes + row]
                adjoint.unary[u_base + row] += total
                for at in range(first, last):
                    here = plan.edge_base[at] + place
                    if not adding:
                        adjoint.m[here] = 0
                    adjoint.m[here] += plan.exponents[at] * total
                    if adjoint.exponents.shape[0] > 0:
                        adjoint.exponents[at] += total * finite_log(value_of(m, here), static.semiring)
                    if stops:
                        adjoint.m[here] += seeds.m[block * slots + here]
                        adjoint.n[here] += seeds.n[block * slots + here]
    return True
