r"""Message passing between binary variables and parity checks, examples side by side in lanes: one sweep, and back.

In: log-odds (of 0 against 1) of variables, checks as lists of edges, syndromes as bits of one word for all lanes. Out:
messages and beliefs as log-odds, in place. With x the messages to a check of sign s, a sweep sends over its edges

.. math:: f_i = s\,\prod_{j\ne i}\mathrm{sgn}\,x_j\cdot 2\,\mathrm{artanh}\prod_{j\ne i}\tanh\tfrac{|x_j|}{2}
          \quad\text{or}\quad f_i = s\,\prod_{j\ne i}\mathrm{sgn}\,x_j\cdot\max(0, \min_{j\ne i}|x_j| - o_i)

and puts :math:`w_i f_i` in the place of the old message. Products are carried with what they are short of 1, so that
they are right from log-odds 0 to the largest. A rule is a tag (see :mod:`loopwise.compiled.arithmetic`): ``()`` for the
sum-product, ``(0,)`` for the min-sum. A lane is an example; a word of 32 bits has a bit for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import fused_callee
from loopwise.compiled.lane_vectors import (
    at_most,
    equal,
    exp_of,
    least,
    load,
    log_of,
    most,
    size,
    spread,
    store,
    turned,
    where,
)

SUM_PRODUCT: tuple[int, ...] = ()
MIN_SUM = (0,)
LARGEST = 1e6  # the size of a message of a check with one variable, which is certain


# Functions that neither make nor keep an array: they count no references to those they are given, which would cost more
# than a check of few variables does. Inlined, but for what is called once a sweep.
_STEP: Any = {
    "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "fastmath": {"contract"},
    "error_model": "numpy", "_nrt": False,
}  # fmt: skip
INLINED_STEP: Any = {"forceinline": True, **_STEP}
step = njit(**_STEP)
inlined = njit(**INLINED_STEP)


class Checks(NamedTuple):
    """The graph: edges check by check."""

    start: Any  # [checks + 1] the first edge of each
    variable: Any  # [edges]
    variables: Any  # how many, as an array of one


class LaneRules(NamedTuple):
    """Numbers of message passing, one row for all sweeps or a row for each."""

    weights: Any  # [rows, edges]
    offsets: Any  # [rows, edges], of the min-sum
    memory: Any  # [rows, variables], no rows where nothing is remembered


class State(NamedTuple):
    """Where examples stand that share lanes: flat arrays of many blocks, and where this block begins in them."""

    m: Any  # messages to variables, a row of lanes for each edge
    belief: Any  # log-odds, a row of lanes for each variable; as the next two
    prior: Any
    bias: Any  # what stands for the prior in the present sweep; empty where nothing is remembered
    odd: Any  # a word of lanes for each check: the syndrome
    edge: Any
    variable: Any
    check: Any


class ParityWorkspace(NamedTuple):
    """Scratch for a check, a row of lanes for each place in it; ``heard`` has one for each variable: log-odds of which
    messages to checks are the part without the check's own."""

    heard: Any
    x: Any  # messages to the check; the sum-product puts e^-|x| in their place, with the sign of x
    f: Any  # messages of the check
    whole: Any  # |tanh x/2|
    gap: Any  # what it is short of 1
    wholes: Any  # products of these from the right, one place more
    gaps: Any
    others: Any  # in double precision, a row for each edge: messages to checks when all are told at once


class LaneTape(NamedTuple):
    """What the way back needs of the sweeps of one block; arrays of length 0 where there is none."""

    x: Any  # [sweeps * edges * lanes] as a rule leaves them
    f: Any
    belief: Any  # before each sweep


@fused_callee
def new_room(checks, like, lane_tag):
    """Scratch for the largest check."""
    lanes, widest = lanes_of(lane_tag), U(1)
    for c in range(U(checks.start.shape[0]) - U(1)):
        widest = max(widest, checks.start[c + U(1)] - checks.start[c])
    row, dtype = (widest + U(1)) * lanes, like.dtype
    return ParityWorkspace(
        np.empty(checks.variables[0] * lanes, dtype), np.empty(row, dtype), np.empty(row, dtype), np.empty(row, dtype),
        np.empty(row, dtype), np.empty(row, dtype), np.empty(row, dtype),
        np.empty(U(checks.variable.shape[0]) * lanes if like.itemsize == 8 else U(0), dtype),
    )  # fmt: skip


@inlined
def row_of(values, sweep):
    """The row of a sweep, counted from 0."""
    return U(sweep) if values.shape[0] > 1 else U(0)


@inlined
def remember(checks, rules, state, work, sweep, layered, lane_tag):
    """What variables have in place of their prior in this sweep, and what checks hear of them; beliefs begin anew
    unless sweeps go check by check."""
    lanes, row = lanes_of(lane_tag), row_of(rules.memory, sweep)
    belief, prior, bias, heard = state.belief, state.prior, state.bias, work.heard
    for v in range(checks.variables[0]):
        here = state.variable + v * lanes
        was, now = load(belief, here, lane_tag), load(prior, here, lane_tag)
        if rules.memory.shape[0] > 0:
            now = now + spread(rules.memory[row, v], prior, lane_tag) * (was - now)
            was = was - load(bias, here, lane_tag) + now
            store(bias, here, now)
        store(heard, v * lanes, was)
        store(belief, here, was if layered else now)


@step
def add_others(checks, state, work, lane_tag):
    """Messages to all checks, each the sum of the others, from both ends. Where equal priors make sums that are zero
    but for rounding, what is subtracted again leaves other rounding: this is the order that ldpc adds up in."""
    lanes, m, belief, heard, others = lanes_of(lane_tag), state.m, state.belief, work.heard, work.others
    edges, zero = U(checks.variable.shape[0]), spread(0.0, work.x, lane_tag)
    for v in range(checks.variables[0]):
        store(heard, v * lanes, load(belief, state.variable + v * lanes, lane_tag))
    for e in range(edges):
        v = checks.variable[e] * lanes
        before = load(heard, v, lane_tag)
        store(others, e * lanes, before)
        store(heard, v, before + load(m, state.edge + e * lanes, lane_tag))
    for v in range(checks.variables[0]):
        store(heard, v * lanes, zero)
    for back in range(edges):
        e = edges - U(1) - back
        v = checks.variable[e] * lanes
        after = load(heard, v, lane_tag)
        store(others, e * lanes, load(others, e * lanes, lane_tag) + after)
        store(heard, v, after + load(m, state.edge + e * lanes, lane_tag))


@inlined
def hear(checks, state, work, first, last, layered, lane_tag):
    """Messages to a check."""
    lanes, m, belief, heard, x = lanes_of(lane_tag), state.m, state.belief, work.heard, work.x
    for e in range(first, last):
        old, v = load(m, state.edge + e * lanes, lane_tag), checks.variable[e] * lanes
        if layered:
            store(x, (e - first) * lanes, load(belief, state.variable + v, lane_tag) - old)
        elif x.itemsize == 8:
            store(x, (e - first) * lanes, load(work.others, e * lanes, lane_tag))
        else:
            store(x, (e - first) * lanes, load(heard, v, lane_tag) - old)


@inlined
def signs_of(word, like, lane_tag):
    """-1 in the lanes of a word, 1 in others."""
    return where(word, spread(-1.0, like, lane_tag), spread(1.0, like, lane_tag))


def send(work, degree, odd, offsets, row, first, lane_tag, rule):
    """The messages ``f`` of a check from those to it; ``odd``: its word of the syndrome."""


@overload(send, jit_options=INLINED_STEP)
def _send(work, degree, odd, offsets, row, first, lane_tag, rule):
    sent = send_sums if len(rule) == 0 else send_least
    return lambda work, degree, odd, offsets, row, first, lane_tag, rule: sent(
        work, degree, odd, offsets, row, first, lane_tag
    )


@inlined
def send_least(work, degree, odd, offsets, row, first, lane_tag):
    lanes, x = lanes_of(lane_tag), work.x
    zero, low = spread(0.0, x, lane_tag), spread(LARGEST, x, lane_tag)
    second, minus = low, signs_of(odd, x, lane_tag)
    for place in range(degree):
        value = load(x, place * lanes, lane_tag)
        this = size(value)
        second = least(second, most(low, this))
        low = least(low, this)
        minus = turned(minus, value)
    for place in range(degree):
        value = load(x, place * lanes, lane_tag)
        other = where(equal(size(value), low), second, low)
        other = most(other - spread(offsets[row, first + place], x, lane_tag), zero)
        store(work.f, place * lanes, turned(turned(other, minus), value))


@inlined
def take_exponentials(work, degree, lane_tag):
    """e^-|x| with the sign of x, which is never 0, in the place of x: the way back needs no more of it."""
    lanes, x = lanes_of(lane_tag), work.x
    zero = spread(0.0, x, lane_tag)
    for place in range(degree):
        value = load(x, place * lanes, lane_tag)
        store(x, place * lanes, turned(exp_of(zero - size(value)), value))


@inlined
def take_tanhs(work, degree, odd, lane_tag):
    """From exponentials |tanh x/2|, what it is short of 1, and products of both from the right; the sign of all."""
    lanes, x = lanes_of(lane_tag), work.x
    zero, one, two = spread(0.0, x, lane_tag), spread(1.0, x, lane_tag), spread(2.0, x, lane_tag)
    product, short, minus = one, zero, signs_of(odd, x, lane_tag)
    store(work.wholes, degree * lanes, product)
    store(work.gaps, degree * lanes, short)
    for step in range(degree):
        here = (degree - U(1) - step) * lanes
        value = load(x, here, lane_tag)
        minus, e = turned(minus, value), size(value)
        share = one / (one + e)
        whole, gap = (one - e) * share, two * e * share
        store(work.whole, here, whole)
        store(work.gap, here, gap)
        short = gap + whole * short
        product = product * whole
        store(work.wholes, here, product)
        store(work.gaps, here, short)
    return minus


@inlined
def send_sums(work, degree, odd, offsets, row, first, lane_tag):
    lanes, x = lanes_of(lane_tag), work.x
    take_exponentials(work, degree, lane_tag)
    minus = take_tanhs(work, degree, odd, lane_tag)
    zero, one, tiny = spread(0.0, x, lane_tag), spread(1.0, x, lane_tag), spread(tiniest(x), x, lane_tag)
    product, short = one, zero
    for place in range(degree):
        here, after = place * lanes, (place + U(1)) * lanes
        high = one + product * load(work.wholes, after, lane_tag)
        value = log_of(high / most(short + product * load(work.gaps, after, lane_tag), tiny))
        store(work.f, here, turned(turned(value, minus), load(x, here, lane_tag)))
        short = short + product * load(work.gap, here, lane_tag)
        product = product * load(work.whole, here, lane_tag)


@inlined
def tiniest(array):
    """What 1 - tanh is at least: messages stay finite."""
    return 1e-300 if array.itemsize == 8 else 1e-30


@inlined
def tell(checks, rules, state, work, row, first, last, layered, lane_tag, rule):
    """Weighted messages of a check to its variables."""
    lanes, m, belief = lanes_of(lane_tag), state.m, state.belief
    for e in range(first, last):
        here, v = (e - first) * lanes, state.variable + checks.variable[e] * lanes
        value, there = spread(rules.weights[row, e], m, lane_tag) * load(work.f, here, lane_tag), state.edge + e * lanes
        old = load(belief, v, lane_tag)
        if layered:
            old = load(work.x, here, lane_tag) if len(rule) > 0 else old - load(m, there, lane_tag)
        store(m, there, value)
        store(belief, v, old + value)


@step
def sweep_once(checks, rules, state, work, tape, sweep, layered, lane_tag, rule):
    """One sweep of a block, counted from 0: all checks from the beliefs before it, or each from what the last left."""
    lanes, taped = lanes_of(lane_tag), tape.x.shape[0] > 0
    edges, row, off = U(checks.variable.shape[0]), row_of(rules.weights, sweep), row_of(rules.offsets, sweep)
    if taped:
        start = U(sweep) * checks.variables[0] * lanes
        for v in range(checks.variables[0]):
            store(tape.belief, start + v * lanes, load(state.belief, state.variable + v * lanes, lane_tag))
    remember(checks, rules, state, work, sweep, layered, lane_tag)
    if state.m.itemsize == 8 and not layered:
        add_others(checks, state, work, lane_tag)
    for c in range(U(checks.start.shape[0]) - U(1)):
        first, last = checks.start[c], checks.start[c + U(1)]
        hear(checks, state, work, first, last, layered, lane_tag)
        send(work, last - first, state.odd[state.check + c], rules.offsets, off, first, lane_tag, rule)
        tell(checks, rules, state, work, row, first, last, layered, lane_tag, rule)
        if taped:
            start = (U(sweep) * edges + first) * lanes
            for place in range(last - first):
                store(tape.x, start + place * lanes, load(work.x, place * lanes, lane_tag))
                store(tape.f, start + place * lanes, load(work.f, place * lanes, lane_tag))


@inlined
def hard_decisions(checks, state, words, lane_tag):
    """A word for each variable: which lanes take it for 1. Log-odds 0 count as 1."""
    zero = spread(0.0, state.belief, lane_tag)
    for v in range(checks.variables[0]):
        words[v] = at_most(load(state.belief, state.variable + v * lanes_of(lane_tag), lane_tag), zero)


@step
def unexplained(checks, state, words):
    """A word: in which lanes the decisions ``words`` break a check."""
    wrong = np.uint32(0)
    for c in range(U(checks.start.shape[0]) - U(1)):
        parity = state.odd[state.check + c]
        for e in range(checks.start[c], checks.start[c + U(1)]):
            parity ^= words[checks.variable[e]]
        wrong |= parity
    return wrong
