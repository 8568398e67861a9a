"""By residuals, with any factors: which message is next, and what others may change by once it was sent; one example.

In: log messages, keys. Out: the same messages, in place; which were sent. Stage: below inference. The rule is that of
:mod:`loopwise.inference.messages.kernels.residual`, and rounds are those of ``rounds``; messages and their arithmetic
those of ``serial``. Edges of structured factors end a call: their messages come from elsewhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.convergence import MOST_NATS
from loopwise.inference.messages.kernels.residual import compounded
from loopwise.inference.messages.kernels.rounds import GROUP, NO_ROUND, Keys, next_floor, turned
from loopwise.inference.messages.stepwise.kernels.serial import _enter, _hear, _table_message

DONE, FULL = -1, -2  # no message is worth sending, or no more are to be; no room to keep one


class GrowthRule(NamedTuple):
    """When a change counts, and how it is carried on."""

    scale: float  # one over the growth that is worth sending
    damping: float
    eps: float  # of the numbers of the problem
    most: int  # messages
    maximise: bool


class Pending(NamedTuple):
    """Where a run stands, from call to call."""

    keys: Keys
    floor: Any  # [1] of this round
    counts: Any  # [3] rounds begun, turns taken in this one, messages sent


class Made(NamedTuple):
    """The edges that sent, and side by side the messages that they replaced; empty if they are not kept."""

    edges: Any
    replaced: Any  # [edges * width]


def new_pending(edges: int) -> Pending:
    """A run that has not begun."""
    values = np.zeros(-(-edges // GROUP) * GROUP + 1)
    return Pending(Keys(values, values.view(np.int64)), np.zeros(1), np.zeros(3, dtype=np.int64))


@callee
def _growth(m, first, last, old, start, eps):
    """The largest over the smallest ratio of a value of a message to the old one, less 1; 0 for rounding, and the most
    there is for a message that has become impossible."""
    high, low, size = -np.inf, np.inf, 1.0
    was, still = False, False
    for slot in range(first, last):
        new, before, moved = m[slot], old[start + slot - first], 0.0
        was, still = was or before > -np.inf, still or new > -np.inf
        if new != before:
            moved = min(max(new - before, -MOST_NATS), MOST_NATS)
            size = max(size, abs(new) if new > -np.inf else 1.0)
        high, low = max(high, moved), min(low, moved)
    if was and not still:
        return math.expm1(MOST_NATS)
    return math.expm1(min(max(high - low - 8.0 * eps * size, 0.0), MOST_NATS))


@callee
def _raise_keys(wiring, terms, rule, pending, edge, grown):
    """Once the message of ``edge`` has ``grown``: messages that it enters may grow, too."""
    values, variable = pending.keys.values, wiring.variable[edge]
    if not grown > 0:
        return
    if rule.damping > 0:  # the rest of its way is pending again
        values[edge] = compounded(0.0, grown, rule.damping, rule.scale)
    power = terms.exponents[edge] if terms.exponents.shape[0] > 0 else 1.0
    for place in range(wiring.variable_edge_start[variable], wiring.variable_edge_start[variable + 1]):
        at = wiring.variable_edges[place]
        enters, factor = (1.0 - rule.damping) * abs(power - (1.0 if at == edge else 0.0)), wiring.factor[at]
        for other in range(wiring.factor_edge[factor], wiring.factor_edge[factor + 1]):
            if other != at and enters > 0:
                values[other] = compounded(values[other], grown, enters, rule.scale)


@kernel
def begin_rounds(wiring, rule, pending, fresh, m):
    """Before anything is sent: what all messages ``m`` would grow by, were they those of ``fresh``."""
    edges = wiring.variable.shape[0]
    for edge in range(edges):
        first, last = wiring.slot[edge], wiring.slot[edge + 1]
        grown = _growth(fresh, first, last, m, first, rule.eps)
        pending.keys.values[edge] = compounded(0.0, grown, 1, rule.scale)
    pending.floor[0] = next_floor(pending.keys, 0, edges)


@callee
def _enter_grown(wiring, terms, rule, pending, edge, fresh, m, made):
    """The fresh message of ``edge`` takes the place of the old one, and those that it enters may grow."""
    first, last, count = wiring.slot[edge], wiring.slot[edge + 1], pending.counts[2]
    old = np.empty(last - first)
    for slot in range(first, last):
        old[slot - first] = m[slot]
    if made.edges.shape[0] > 0:
        width = made.replaced.shape[0] // made.edges.shape[0]
        made.edges[count] = edge
        for value in range(last - first):
            made.replaced[count * width + value] = old[value]
    _enter(wiring, terms, edge, fresh, m)
    pending.counts[2] = count + 1
    pending.keys.values[edge] = 0.0
    _raise_keys(wiring, terms, rule, pending, edge, _growth(m, first, last, old, 0, rule.eps))


@kernel
def enter_by_residual(wiring, terms, rule, pending, edge, fresh, m, made):
    """See :func:`_enter_grown`; for a message that comes from elsewhere, whose turn :func:`send_rounds` found."""
    _enter_grown(wiring, terms, rule, pending, edge, fresh, m, made)


@callee
def _next_edge(edges, rule, pending):
    """The edge whose turn it is, or ``DONE``."""
    counts, values = pending.counts, pending.keys.values
    while counts[2] < rule.most and pending.floor[0] != NO_ROUND:
        while counts[1] < edges:
            edge = turned(counts[1], counts[0], edges)
            counts[1] += 1
            if values[edge] > pending.floor[0]:
                return edge
        counts[0], counts[1] = counts[0] + 1, 0
        pending.floor[0] = next_floor(pending.keys, counts[2], edges)
    return DONE


@kernel
def send_rounds(wiring, terms, rule, pending, m, n, made):
    """Messages of tables, that which may change most first, up to the turn of an edge of a structured factor, which is
    returned; ``DONE`` if there is none, ``FULL`` where ``made`` is."""
    width, edges = 1, wiring.variable.shape[0]
    for edge in range(edges):
        width = max(width, wiring.slot[edge + 1] - wiring.slot[edge])
    fresh, tops = np.empty(width), np.empty(width)
    while made.edges.shape[0] == 0 or pending.counts[2] < made.edges.shape[0]:
        edge = _next_edge(edges, rule, pending)
        if edge == DONE or wiring.theta[wiring.factor[edge]] < 0:
            return edge
        for other in range(wiring.factor_edge[wiring.factor[edge]], wiring.factor_edge[wiring.factor[edge] + 1]):
            if other != edge:
                _hear(wiring, terms, other, m, n)
        _table_message(wiring, terms.theta, n, edge, rule.maximise, fresh, tops)
        _enter_grown(wiring, terms, rule, pending, edge, fresh, m, made)
    return FULL


@kernel
def pending_reach(rule, pending, reach):
    """How far the largest change that is still pending can move a belief in the end."""
    largest = 0.0
    for key in pending.keys.values:
        largest = max(largest, key)
    return math.log1p(largest / rule.scale) * reach if largest > 0 else 0.0
