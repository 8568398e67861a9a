"""One message after another, in an order that is given, and the way back; log messages of one example.

In: messages, unary log-potentials, tables, the edges in the order in which they send. Out: the same messages, in place;
adjoints. Stage: below inference. What a factor hears is worked out of the messages as they are, each time: no sum is
carried along, so none goes astray. Edges of structured factors end a call: their messages come from elsewhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.elementary import normalise_log


class Wiring(NamedTuple):
    """Where things stand, edge by edge and factor by factor."""

    slot: Any  # [edges + 1] first slot
    state: Any  # [edges] first state of its variable
    variable: Any  # [edges]
    variable_edge_start: Any
    variable_edges: Any
    factor: Any  # [edges]
    factor_edge: Any  # [factors + 1] first edge
    theta: Any  # [factors] where its table begins; -1 for structured factors


class Terms(NamedTuple):
    """The numbers of one example; ``exponents`` empty if all are 1."""

    exponents: Any  # [edges]
    powers: Any  # [edges] weights of messages, empty if there are none, nor damping
    shares: Any  # [edges] what messages keep of the old ones
    unary: Any  # [states]
    theta: Any  # cells of all tables


class SerialAdjoints(NamedTuple):
    """Adjoints of messages and of :class:`Terms`, added to."""

    m: Any
    n: Any  # room
    exponents: Any
    powers: Any
    shares: Any
    unary: Any
    theta: Any


@callee
def _hear(wiring, terms, edge, m, n):
    """The message of an edge's variable to its factor, shifted to a largest of 0."""
    plain, variable, top = terms.exponents.shape[0] == 0, wiring.variable[edge], -np.inf
    begin, end = wiring.variable_edge_start[variable], wiring.variable_edge_start[variable + 1]
    first = wiring.slot[edge]
    for value in range(wiring.slot[edge + 1] - first):
        total, forbidden = terms.unary[wiring.state[edge] + value], 0
        for place in range(begin, end):
            other = wiring.variable_edges[place]
            message = m[wiring.slot[other] + value]
            if message == -np.inf:
                forbidden += 0 if plain and other == edge else 1
            else:
                total += message if plain else terms.exponents[other] * message
        if m[first + value] > -np.inf:
            total -= m[first + value]
        n[first + value] = total if forbidden == 0 else -np.inf
        top = max(top, n[first + value])
    if top > -np.inf:
        for slot in range(first, wiring.slot[edge + 1]):
            n[slot] -= top


@callee
def _hear_back(wiring, terms, edge, m, adjoints):
    """Adjoint of :func:`_hear`, from that of the message, which is used up."""
    plain, variable = terms.exponents.shape[0] == 0, wiring.variable[edge]
    begin, end = wiring.variable_edge_start[variable], wiring.variable_edge_start[variable + 1]
    first = wiring.slot[edge]
    for value in range(wiring.slot[edge + 1] - first):
        back = adjoints.n[first + value]
        adjoints.n[first + value] = 0.0
        if back == 0.0:
            continue
        adjoints.unary[wiring.state[edge] + value] += back
        for place in range(begin, end):
            other = wiring.variable_edges[place]
            slot = wiring.slot[other] + value
            if m[slot] == -np.inf:
                continue
            adjoints.m[slot] += back if plain else terms.exponents[other] * back
            if adjoints.exponents.shape[0] > 0:
                adjoints.exponents[other] += back * m[slot]
        if m[first + value] > -np.inf:
            adjoints.m[first + value] -= back


@callee
def _cell(wiring, theta, n, first, last, position, cell):
    """A cell of a table with the messages of all positions but one, and the value at that one."""
    total, rest, mine = theta[cell], cell, 0
    for edge in range(last - 1, first - 1, -1):
        size = wiring.slot[edge + 1] - wiring.slot[edge]
        value = rest % size
        rest //= size
        if edge == position:
            mine = value
        else:
            total += n[wiring.slot[edge] + value]
    return total, mine


@callee
def _table_message(wiring, theta, n, edge, maximise, fresh, tops):
    """The unnormalised log message of a table along ``edge`` into ``fresh``."""
    factor = wiring.factor[edge]
    first, last = wiring.factor_edge[factor], wiring.factor_edge[factor + 1]
    size, cells = wiring.slot[edge + 1] - wiring.slot[edge], 1
    for other in range(first, last):
        cells *= wiring.slot[other + 1] - wiring.slot[other]
    table = theta[wiring.theta[factor] : wiring.theta[factor] + cells]
    for value in range(size):
        tops[value], fresh[value] = -np.inf, 0.0
    for cell in range(cells):
        total, mine = _cell(wiring, table, n, first, last, edge, cell)
        tops[mine] = max(tops[mine], total)
    if not maximise:
        for cell in range(cells):
            total, mine = _cell(wiring, table, n, first, last, edge, cell)
            if total > -np.inf:
                fresh[mine] += math.exp(total - tops[mine])
    for value in range(size):
        fresh[value] = tops[value] if maximise or tops[value] == -np.inf else tops[value] + math.log(fresh[value])


@kernel
def hear_factor(wiring, terms, factor, but, m, n):
    """The messages to one factor that its message along the edge ``but`` is made of; along that edge, a uniform one."""
    for edge in range(wiring.factor_edge[factor], wiring.factor_edge[factor + 1]):
        if edge != but:
            _hear(wiring, terms, edge, m, n)
    for slot in range(wiring.slot[but], wiring.slot[but + 1]):
        n[slot] = 0.0


@kernel
def hear_edges(wiring, terms, order, m, n):
    """The messages to factors along the edges ``order``."""
    for edge in order:
        _hear(wiring, terms, edge, m, n)


@callee
def _enter(wiring, terms, edge, fresh, m):
    """A fresh message, up to a factor, takes the place of the old one: weighted, damped, normalised."""
    first, last = wiring.slot[edge], wiring.slot[edge + 1]
    normalise_log(fresh, 0, last - first)
    if terms.powers.shape[0] == 0:
        for slot in range(first, last):
            m[slot] = fresh[slot - first]
        return
    power, share = terms.powers[edge], terms.shares[edge]
    for slot in range(first, last):
        new = fresh[slot - first]
        if new > -np.inf:
            new *= power
            if m[slot] > -np.inf:
                new = (1.0 - share) * new + share * m[slot]
        m[slot] = new
    normalise_log(m, first, last)


@kernel
def enter_message(wiring, terms, edge, fresh, m):
    """See :func:`_enter`; ``fresh`` is normalised on the way."""
    _enter(wiring, terms, edge, fresh, m)


@kernel
def enter_messages(wiring, terms, order, fresh, m):
    """The same for all edges ``order``; ``fresh`` has a place for each slot of the layout."""
    for edge in order:
        _enter(wiring, terms, edge, fresh[wiring.slot[edge] : wiring.slot[edge + 1]], m)


@kernel
def send_in_order(wiring, terms, order, start, maximise, m, n, replaced, width):
    """Messages of tables along ``order`` from place ``start`` on, each made of the latest ones; returns the place of
    the first edge of a structured factor, or the end. ``replaced[u * width:]`` gets the message that update ``u``
    replaced; empty: they are not kept."""
    fresh, tops = np.empty(width), np.empty(width)
    for place in range(start, order.shape[0]):
        edge = order[place]
        factor = wiring.factor[edge]
        if wiring.theta[factor] < 0:
            return place
        for other in range(wiring.factor_edge[factor], wiring.factor_edge[factor + 1]):
            if other != edge:
                _hear(wiring, terms, other, m, n)
        _table_message(wiring, terms.theta, n, edge, maximise, fresh, tops)
        if replaced.shape[0] > 0:
            for slot in range(wiring.slot[edge], wiring.slot[edge + 1]):
                replaced[place * width + slot - wiring.slot[edge]] = m[slot]
        _enter(wiring, terms, edge, fresh, m)
    return order.shape[0]


@kernel
def table_messages(wiring, terms, order, maximise, n, out, width):
    """Unnormalised messages of tables along the edges ``order`` into ``out``, from the messages ``n`` to factors."""
    fresh, tops = np.empty(width), np.empty(width)
    for edge in order:
        _table_message(wiring, terms.theta, n, edge, maximise, fresh, tops)
        for slot in range(wiring.slot[edge], wiring.slot[edge + 1]):
            out[slot] = fresh[slot - wiring.slot[edge]]


@callee
def _enter_back(wiring, terms, edge, fresh, old, m, adjoints):
    """Adjoint of :func:`_enter` for the message ``m`` that it made of ``fresh``, normalised, and ``old``: that of the
    fresh one into ``fresh``, of the old one in place of that of ``m``."""
    first, last = wiring.slot[edge], wiring.slot[edge + 1]
    total = 0.0
    for slot in range(first, last):
        total += adjoints.m[slot] if m[slot] > -np.inf else 0.0
    weighted = terms.powers.shape[0] > 0
    power, share = (terms.powers[edge], terms.shares[edge]) if weighted else (1.0, 0.0)
    for slot in range(first, last):
        back, new = 0.0, fresh[slot - first]
        if m[slot] > -np.inf:
            back = adjoints.m[slot] - math.exp(m[slot]) * total
        adjoints.m[slot] = 0.0
        mixed = weighted and new > -np.inf and old[slot - first] > -np.inf
        keep = share if mixed else 0.0
        if weighted and new > -np.inf:
            adjoints.powers[edge] += back * (1.0 - keep) * new
        if mixed:
            adjoints.shares[edge] += back * (old[slot - first] - power * new)
            adjoints.m[slot] = share * back
        fresh[slot - first] = back * (1.0 - keep) * power if new > -np.inf else 0.0


@callee
def _unnormalise(size, fresh, back):
    """Adjoints ``back`` of a normalised log message ``fresh`` become those of the same before it was normalised."""
    total = 0.0
    for value in range(size):
        total += back[value]
    for value in range(size):
        if fresh[value] > -np.inf:
            back[value] -= math.exp(fresh[value]) * total


@kernel
def enter_back(wiring, terms, edge, fresh, old, m, adjoints):
    """Undoes :func:`enter_message` of the normalised message ``fresh``, which becomes its adjoint; ``m`` gets the old
    message back."""
    _enter_back(wiring, terms, edge, fresh, old, m, adjoints)
    for slot in range(wiring.slot[edge], wiring.slot[edge + 1]):
        m[slot] = old[slot - wiring.slot[edge]]


@kernel
def hear_factor_back(wiring, terms, factor, but, m, adjoints):
    """Undoes :func:`hear_factor`, but for the edge ``but``."""
    for edge in range(wiring.factor_edge[factor], wiring.factor_edge[factor + 1]):
        if edge != but:
            _hear_back(wiring, terms, edge, m, adjoints)


@kernel
def undo_in_order(wiring, terms, order, end, m, n, replaced, width, adjoints):
    """Undoes the updates before place ``end``, last to first, up to one of a structured factor, whose place it returns;
    -1 if there is none. ``m`` and the adjoints of messages are left as they were before those updates."""
    fresh, tops, back, old = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    for place in range(end - 1, -1, -1):
        edge = order[place]
        factor = wiring.factor[edge]
        if wiring.theta[factor] < 0:
            return place
        first, last, start = wiring.factor_edge[factor], wiring.factor_edge[factor + 1], wiring.slot[edge]
        size, cells = wiring.slot[edge + 1] - start, 1
        for other in range(first, last):
            cells *= wiring.slot[other + 1] - wiring.slot[other]
            if other != edge:
                _hear(wiring, terms, other, m, n)
        _table_message(wiring, terms.theta, n, edge, False, fresh, tops)
        norm = normalise_log(fresh, 0, size)
        for value in range(size):
            back[value], old[value] = fresh[value], replaced[place * width + value]
        _enter_back(wiring, terms, edge, back, old, m, adjoints)
        _unnormalise(size, fresh, back)
        at = wiring.theta[factor]
        table = terms.theta[at : at + cells]
        for cell in range(cells):
            total, mine = _cell(wiring, table, n, first, last, edge, cell)
            if total == -np.inf or back[mine] == 0.0:
                continue
            value = back[mine] * math.exp(total - fresh[mine] - norm)
            adjoints.theta[at + cell] += value
            rest = cell
            for other in range(last - 1, first - 1, -1):
                count = wiring.slot[other + 1] - wiring.slot[other]
                if other != edge:
                    adjoints.n[wiring.slot[other] + rest % count] += value
                rest //= count
        for value in range(size):
            m[start + value] = old[value]
        for other in range(first, last):
            if other != edge:
                _hear_back(wiring, terms, other, m, adjoints)
    return -1


@kernel
def logs_of(wiring, terms, m, logs, counts):
    """Sums of all messages to each variable with its potentials, and how many rule each value out."""
    for state in range(logs.shape[0]):
        logs[state], counts[state] = terms.unary[state], 0
    for edge in range(wiring.state.shape[0]):
        power = terms.exponents[edge] if terms.exponents.shape[0] > 0 else 1.0
        for slot in range(wiring.slot[edge], wiring.slot[edge + 1]):
            state = wiring.state[edge] + slot - wiring.slot[edge]
            if m[slot] == -np.inf:
                counts[state] += 1
            else:
                logs[state] += power * m[slot]


@kernel
def logs_back(wiring, terms, m, of_logs, adjoints):
    """Adjoint of :func:`logs_of`."""
    for state in range(of_logs.shape[0]):
        adjoints.unary[state] += of_logs[state]
    for edge in range(wiring.state.shape[0]):
        power = terms.exponents[edge] if terms.exponents.shape[0] > 0 else 1.0
        for slot in range(wiring.slot[edge], wiring.slot[edge + 1]):
            if m[slot] > -np.inf:
                back = of_logs[wiring.state[edge] + slot - wiring.slot[edge]]
                adjoints.m[slot] += power * back
                if adjoints.exponents.shape[0] > 0:
                    adjoints.exponents[edge] += back * m[slot]
