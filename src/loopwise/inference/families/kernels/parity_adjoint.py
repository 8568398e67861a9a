r"""The way back through sweeps over parity checks: adjoints of weights, offsets, memory, priors.

In: the graph, rules and shots of ``parity_decode``, adjoints of log-odds after some sweeps. Out:
adjoints, added up over shots. Each block of lanes makes its sweeps again, with a tape of its own, and undoes them, so
that memory does not grow with the number of shots. With b the adjoints of a check's messages times their signs, P the
product of |tanh| over the others and u what it is short of 1, the sum-product's are

.. math:: |x_j|' = \tfrac12 (1 - t_j^2)\sum_{i\ne j} \frac{2 b_i}{u_i (1 + P_i)} \prod_{k\ne i,j} t_k

and the min-sum's go to the least and the next to least message.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import fused_kernel
from loopwise.compiled.lane_vectors import below, equal, least, load, most, size, spread, store, total, turned, where
from loopwise.inference.families.kernels.parity_decode import enter, new_states, state_at
from loopwise.inference.families.kernels.parity_lanes import (
    INLINED_STEP,
    LARGEST,
    LaneTape,
    inlined,
    new_room,
    row_of,
    signs_of,
    step,
    sweep_once,
    take_tanhs,
    tiniest,
)


class ParityAdjoints(NamedTuple):
    """Adjoints, float64, in the shapes of what they are of."""

    weights: Any
    offsets: Any
    memory: Any
    prior: Any
    start: Any


class Back(NamedTuple):
    """Adjoints of the state of one block, rows of lanes."""

    m: Any
    belief: Any
    bias: Any
    heard: Any
    f: Any  # by place in a check, as the next two
    x: Any
    rate: Any


class BlockBack(NamedTuple):
    """The arrays of one block on the way back."""

    state: Any  # of its sweeps, made again
    work: Any
    tape: Any
    back: Any
    of: Any  # adjoints of what all blocks share


class TraceAdjoints(NamedTuple):
    """What a loss says of log-odds after some sweeps."""

    kept: Any  # which, rising, counted from 1
    trace: Any  # ``[k, variable, shot]``, flat


def undo(work, back, degree, odd, offsets, row, first, of_offsets, lane_tag, rule):
    """Adjoints ``back.x`` of messages to a check from those, ``back.f``, of its own."""


@overload(undo, jit_options=INLINED_STEP)
def _undo(work, back, degree, odd, offsets, row, first, of_offsets, lane_tag, rule):
    way = undo_sums if len(rule) == 0 else undo_least
    return lambda work, back, degree, odd, offsets, row, first, of_offsets, lane_tag, rule: way(
        work, back, degree, odd, offsets, row, first, of_offsets, lane_tag
    )


@inlined
def undo_least(work, back, degree, odd, offsets, row, first, of_offsets, lane_tag):
    lanes, x, of_f, of_x = lanes_of(lane_tag), work.x, back.f, back.x
    zero, low = spread(0.0, x, lane_tag), spread(LARGEST, x, lane_tag)
    second, minus = low, signs_of(odd, x, lane_tag)
    for place in range(degree):
        value = load(x, place * lanes, lane_tag)
        this = size(value)
        second = least(second, most(low, this))
        low = least(low, this)
        minus = turned(minus, value)
    to_least, to_second, seen = zero, zero, np.uint32(0)
    for place in range(degree):
        value = load(x, place * lanes, lane_tag)
        same = equal(size(value), low)
        mine = same & ~seen  # the first of those that are least
        seen |= same
        other = where(same, second, low) - spread(offsets[row, first + place], x, lane_tag)
        b = turned(turned(load(of_f, place * lanes, lane_tag), minus), value)
        b = where(below(zero, other), b, zero)
        of_offsets[row, first + place] -= total(b)
        to_least = to_least + where(mine, zero, b)
        to_second = to_second + where(mine, b, zero)
    seen, taken = np.uint32(0), np.uint32(0)
    for place in range(degree):
        value = load(x, place * lanes, lane_tag)
        same = equal(size(value), low)
        mine = same & ~seen
        seen |= same
        next_one = equal(size(value), second) & ~mine & ~taken
        taken |= next_one
        a = where(mine, to_least, where(next_one, to_second, zero))
        store(of_x, place * lanes, turned(a, value))


@inlined
def undo_sums(work, back, degree, odd, offsets, row, first, of_offsets, lane_tag):
    lanes, x, of_f, of_x, rate = lanes_of(lane_tag), work.x, back.f, back.x, back.rate
    minus = take_tanhs(work, degree, odd, lane_tag)
    zero, one, tiny = spread(0.0, x, lane_tag), spread(1.0, x, lane_tag), spread(tiniest(x), x, lane_tag)
    two, half = spread(2.0, x, lane_tag), spread(0.5, x, lane_tag)
    product, short, carried = one, zero, zero
    for place in range(degree):
        here, after = place * lanes, (place + U(1)) * lanes
        right, value = load(work.wholes, after, lane_tag), load(x, here, lane_tag)
        u = most(short + product * load(work.gaps, after, lane_tag), tiny)
        b = turned(turned(load(of_f, here, lane_tag), minus), value)
        r = two * b / (u * (one + product * right))
        store(rate, here, r)
        store(of_x, here, right * carried)
        whole = load(work.whole, here, lane_tag)
        carried = carried * whole + r * product
        short = short + product * load(work.gap, here, lane_tag)
        store(work.f, here, product)
        product = product * whole
    carried = zero
    for back_step in range(degree):
        place = degree - U(1) - back_step
        here, after = place * lanes, (place + U(1)) * lanes
        whole = load(work.whole, here, lane_tag)
        a = load(of_x, here, lane_tag) + load(work.f, here, lane_tag) * carried
        a = a * half * load(work.gap, here, lane_tag) * (one + whole)
        store(of_x, here, turned(a, load(x, here, lane_tag)))
        carried = carried * whole + load(rate, here, lane_tag) * load(work.wholes, after, lane_tag)


@inlined
def check_back(checks, rules, block, c, sweep, layered, lane_tag, rule):
    """Undoes one check of one sweep."""
    state, work, tape, back, of = block
    lanes, edges = lanes_of(lane_tag), U(checks.variable.shape[0])
    first, last = checks.start[c], checks.start[c + U(1)]
    row, off = row_of(rules.weights, sweep), row_of(rules.offsets, sweep)
    for e in range(first, last):
        here, place = (e - first) * lanes, (U(sweep) * edges + e) * lanes
        store(work.x, here, load(tape.x, place, lane_tag))
        of_m = load(back.m, e * lanes, lane_tag) + load(back.belief, checks.variable[e] * lanes, lane_tag)
        of.weights[row, e] += total(load(tape.f, place, lane_tag) * of_m)
        store(back.f, here, spread(rules.weights[row, e], work.x, lane_tag) * of_m)
    odd = state.odd[state.check + c]
    undo(work, back, last - first, odd, rules.offsets, off, first, of.offsets, lane_tag, rule)
    zero = spread(0.0, work.x, lane_tag)
    for e in range(first, last):
        v, of_x = checks.variable[e] * lanes, load(back.x, (e - first) * lanes, lane_tag)
        if layered:
            of_x = of_x + load(back.belief, v, lane_tag)
            store(back.belief, v, of_x)
        else:
            store(back.heard, v, load(back.heard, v, lane_tag) + of_x)
        store(back.m, e * lanes, zero - of_x)


@step
def remember_back(checks, rules, block, first, held, sweep, layered, lane_tag):
    """Undoes what variables remembered in a sweep; ``back.belief`` is then of the beliefs before it."""
    state, _, tape, back, of = block
    lanes, row = lanes_of(lane_tag), row_of(rules.memory, sweep)
    for v in range(checks.variables[0]):
        here, past = v * lanes, (U(sweep) * checks.variables[0] + v) * lanes
        of_belief, of_heard = load(back.belief, here, lane_tag), load(back.heard, here, lane_tag)
        of_now = of_belief
        if layered:
            of_heard = of_belief
        elif rules.memory.shape[0] > 0:
            of_now = of_belief + of_heard
        of_was = of_heard
        if rules.memory.shape[0] > 0:
            of_now = of_now + load(back.bias, here, lane_tag)
            own, was = load(state.prior, state.variable + here, lane_tag), load(tape.belief, past, lane_tag)
            share = spread(rules.memory[row, v], state.prior, lane_tag)
            of.memory[row, v] += total(of_now * (was - own))
            of_was = of_heard + share * of_now
            store(back.bias, here, spread(0.0, state.prior, lane_tag) - of_heard)
            of_now = of_now - share * of_now
        elif layered:  # beliefs go on from where they were
            of_now = spread(0.0, state.prior, lane_tag)
        store(back.belief, here, of_was)
        prior_back(of.prior, of_now, v, first, held, back.f, lane_tag)


@inlined
def prior_back(of_prior, adjoint, v, first, held, work, lane_tag):
    """Adds the adjoints of a variable's log-odds, of each shot or of all."""
    if of_prior.shape[0] == 1:
        of_prior[0, v] += total(adjoint)
    else:
        store(work, U(0), adjoint)
        for lane in range(held):
            of_prior[first + lane, v] += work[lane]


@step
def clear(values):
    for place in range(values.shape[0]):
        values[place] = 0.0


@step
def keep_beliefs(checks, belief, trace, at, first, held, count, lane_tag):
    """Copies log-odds of a block to row ``at`` of the trace, ``[kept, variable, shot]`` without its shape."""
    lanes = lanes_of(lane_tag)
    for v in range(checks.variables[0]):
        place = (U(at) * checks.variables[0] + v) * U(count) + U(first)
        if U(held) == lanes:
            store(trace, place, load(belief, v * lanes, lane_tag))
        else:
            for lane in range(held):
                trace[place + U(lane)] = belief[v * lanes + U(lane)]


@step
def hear_trace(checks, of_trace, of_belief, at, first, held, count, lane_tag):
    """Adds what a loss says of a row of the trace to the adjoints of a block's log-odds."""
    lanes = lanes_of(lane_tag)
    for v in range(checks.variables[0]):
        place = (U(at) * checks.variables[0] + v) * U(count) + U(first)
        if U(held) == lanes:
            store(of_belief, v * lanes, load(of_belief, v * lanes, lane_tag) + load(of_trace, place, lane_tag))
        else:
            for lane in range(held):
                of_belief[v * lanes + U(lane)] += of_trace[place + U(lane)]


@fused_kernel
def trace_shots(checks, rules, shots, kept, trace, layered, lane_tag, rule):
    """Log-odds after the sweeps ``kept`` (rising, counted from 1), without a stop: ``trace`` ``[k, variable, shot]``,
    flat, so that lanes are written in one piece."""
    lanes, count = lanes_of(lane_tag), shots.syndrome.shape[0]
    work, states = new_room(checks, shots.prior, lane_tag), new_states(checks, rules, shots.prior, U(1), lane_tag)
    nothing = np.empty(0, shots.prior.dtype)
    tape, state = LaneTape(nothing, nothing, nothing), state_at(states, U(0), checks, lanes)
    for first in range(0, count, np.int64(lanes)):
        held, place = min(np.int64(lanes), count - first), 0
        enter(checks, rules, state, shots, U(first), U(held), lane_tag)
        for sweep in range(kept[-1]):
            sweep_once(checks, rules, state, work, tape, sweep, layered, lane_tag, rule)
            if sweep + 1 == kept[place]:
                keep_beliefs(checks, state.belief, trace, place, first, held, count, lane_tag)
                place += 1


@step
def block_back(checks, rules, shots, given, block, first, held, layered, lane_tag, rule):
    """The sweeps of one block, made again and undone."""
    lanes, variables, kept = lanes_of(lane_tag), checks.variables[0], given.kept
    state, work, tape, back, of = block
    for sweep in range(kept[-1]):
        sweep_once(checks, rules, state, work, tape, sweep, layered, lane_tag, rule)
    clear(back.m)
    clear(back.belief)
    clear(back.bias)
    place = kept.shape[0] - 1
    for past in range(kept[-1]):
        sweep = kept[-1] - 1 - past
        if place >= 0 and kept[place] == sweep + 1:
            hear_trace(checks, given.trace, back.belief, place, first, held, shots.syndrome.shape[0], lane_tag)
            place -= 1
        clear(back.heard)
        for number in range(U(checks.start.shape[0]) - U(1)):
            c = U(checks.start.shape[0]) - U(2) - number
            check_back(checks, rules, block, c, sweep, layered, lane_tag, rule)
        remember_back(checks, rules, block, first, held, sweep, layered, lane_tag)
    for v in range(variables):  # before the first sweep beliefs, and what stands for the prior, are what was given
        begun = load(back.belief, v * lanes, lane_tag)
        if rules.memory.shape[0] > 0:
            begun = begun + load(back.bias, v * lanes, lane_tag)
        if shots.start.shape[0] > 0:
            prior_back(of.start, begun, v, first, held, back.f, lane_tag)
        else:
            prior_back(of.prior, begun, v, first, held, back.f, lane_tag)


@fused_kernel
def pull_back(checks, rules, shots, kept, of_trace, of, layered, lane_tag, rule):
    """Undoes :func:`trace_shots`: adds to the adjoints ``of``."""
    lanes, count, like, sweeps = lanes_of(lane_tag), shots.syndrome.shape[0], shots.prior, U(kept[-1])
    work, states = new_room(checks, like, lane_tag), new_states(checks, rules, like, U(1), lane_tag)
    state, edges, variables = state_at(states, U(0), checks, lanes), U(checks.variable.shape[0]), checks.variables[0]
    tape = LaneTape(
        np.empty(sweeps * edges * lanes, like.dtype), np.empty(sweeps * edges * lanes, like.dtype),
        np.empty(sweeps * variables * lanes, like.dtype),
    )  # fmt: skip
    rows = U(work.x.shape[0])
    back = Back(
        np.empty(edges * lanes, like.dtype), np.empty(variables * lanes, like.dtype),
        np.empty(variables * lanes, like.dtype), np.empty(variables * lanes, like.dtype), np.empty(rows, like.dtype),
        np.empty(rows, like.dtype), np.empty(rows, like.dtype),
    )  # fmt: skip
    block, given = BlockBack(state, work, tape, back, of), TraceAdjoints(kept, of_trace)
    for first in range(0, count, np.int64(lanes)):
        held = min(np.int64(lanes), count - first)
        enter(checks, rules, state, shots, U(first), U(held), lane_tag)
        block_back(checks, rules, shots, given, block, first, held, layered, lane_tag, rule)
