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


@fused_callee
def variables_back(begin, end, order, plan, block, adjoint, adding, clearing, scratch, uniform, stride_tag, lane_tag):
    """Undoes the visits to variables ``begin`` to ``end`` of ``order`` (None: as numbered). ``uniform`` (not None) is
    as long as every variable's cardinality.

    The adjoints of messages to them are added to, or written over if not ``adding``. Those of their messages to factors
    are used up; they are set to zero only if ``clearing``, since undoing all factors writes them anew.
    """
    state_start, edge_start, edge_base, exponents = plan.state_start, plan.edge_start, plan.edge_base, plan.exponents
    m, n, unary, total = adjoint.m, adjoint.n, adjoint.unary, scratch[2]
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
    step = stride if len(lane_tag) < len(stride_tag) else U(1)
    u_base = block * U(adjoint.unary_block)
    for index in range(begin, end):
        variable = index if order is None else U(order[index])
        first_state = U(state_start[variable])
        states = U(state_start[variable + U(1)]) - first_state if uniform is None else U(len(uniform))
        size = states * lanes
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        u0 = u_base + first_state * lanes
        if len(lane_tag) == 0 and last - first == U(4) and not adding and not clearing:
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
        if len(lane_tag) == 0:  # as balance does, but a call would cost more than the work
            excess, whole = m.dtype.type(0.0), m.dtype.type(0.0)
            for place in range(size):
                excess += total[place]
                whole += abs(total[place])
            share = excess / whole if whole > 0 else excess
            for place in range(size):
                total[place] -= abs(total[place]) * share
        else:
            balance(total, U(0), size // lanes, lane_tag)
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
            if clearing:
                for place in range(size):
                    n[here + place * step] = 0


@fused_inlined
def finite_log(message, log):
    """The logarithm of a message; 0 for a forbidden value, which no derivative sees."""
    if log:
        return message if message > -np.inf else 0.0
    return math.log(message) if message > 0 else 0.0


@fused_callee
def exponents_back(begin, end, plan, m, m_base, adjoint, log, stride_tag, lane_tag):
    """Adjoint of the powers with which messages enter variables ``begin`` to ``end``: S times the log message. To be
    called before the visits are undone. ``m``: messages after the step; ``log``: they are logarithms."""
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
    for variable in range(begin, end):
        states = U(plan.state_start[variable + U(1)] - plan.state_start[variable])
        first, last = U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])
        for state in range(states):
            for lane in range(lanes):
                place = state * stride + lane
                total = adjoint.n.dtype.type(0.0)
                for at in range(first, last):
                    total += adjoint.n[plan.edge_base[at] + place]
                for at in range(first, last):
                    adjoint.exponents[at] += total * finite_log(m[m_base + plan.edge_base[at] + place], log)


@fused_callee
def damping_back(m, before, after, first, last, adjoint, kept, log):
    """Adjoint of the damping, from messages ``m`` at ``before`` and ``after`` a step: new = (1 - d) calculated + d old
    in logarithms, so d new / d d = old - calculated = (old - new) / (1 - d)."""
    for place in range(first, last):
        change = finite_log(m[before + place], log) - finite_log(m[after + place], log)
        adjoint.damping[0] += adjoint.m[place] * change / (1 - kept)


@fused_callee
def enter_seeds(
    plan, seeds, block, sweep, begin, end, examples, m, m_base, adjoint, adding, log, stride_tag, lane_tag,
):  # fmt: skip
    """Adds what the loss says of the beliefs and messages after ``sweep`` to the adjoints, for variables ``begin`` to
    ``end``; of the last sweep only for the examples that stopped there. ``m``: the messages after the sweep, looked at
    only if the exponents want an adjoint. If anything was added to the adjoints of messages to variables, which are
    empty unless ``adding``, the answer is True: they must not be written over then."""
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
    states, slots = U(plan.state_start[-1]), U(plan.slots) * stride
    traced = seeds.trace.shape[0] > 0
    ending = False
    for lane in range(lanes):
        example = block * lanes + lane
        ending = ending or (example < U(examples) and seeds.last[example] == sweep)
    if not (traced or ending):
        return adding
    sweeps = U(seeds.trace.shape[0]) // max(U(1), U(seeds.unary.shape[0]))
    u_base = block * U(adjoint.unary_block)
    for variable in range(begin, end):
        first, last = U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])
        first_state = U(plan.state_start[variable])
        for state in range(U(plan.state_start[variable + U(1)]) - first_state):
            for lane in range(lanes):
                example = block * lanes + lane
                stops = example < U(examples) and seeds.last[example] == sweep
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
                        adjoint.exponents[at] += total * finite_log(m[m_base + here], log)
                    if stops:
                        adjoint.m[here] += seeds.m[block * slots + here]
                        adjoint.n[here] += seeds.n[block * slots + here]
    return True
