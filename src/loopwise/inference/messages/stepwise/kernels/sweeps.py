"""Sweeps taken apart: messages of tables, sums of messages to variables, and the adjoint of each, in the log domain.

In: log messages ``[examples, slots]`` in the order of the layout. Out: the same, in place. Stage: below inference. For
graphs whose factors are not all tables: between these steps, structured factors send messages of their own.

Sums over the cells of a table are taken of probabilities wherever these keep their digits, and of logarithms, shifted
to their largest, where they do not: so results are those of the log domain throughout. Arrays of potentials have one
row if all examples share them; ``rows`` are the examples to work on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.elementary import exp_all, log_all, normalise_log
from loopwise.inference.messages.kernels.convergence import limits_of, log_change


class Edges(NamedTuple):
    """Where messages stand, edge by edge."""

    slot: Any  # [edges + 1] first slot
    state: Any  # [edges] first state of its variable
    state_start: Any  # [variables + 1]


class Tables(NamedTuple):
    """One group of table factors."""

    count: Any
    shape: Any  # [arity]
    cell_slots: Any  # [cells, arity] slot within the factor that each cell reads along each axis
    slot_start: Any
    least: Any  # numbers of at least this, or 0, keep their digits when as many are multiplied as a cell has


class Weights(NamedTuple):
    """The numbers of one group, ``[1 or examples, factors, cells]``."""

    theta: Any  # log-potentials
    weight: Any  # exp(theta less the largest of its table)
    tame: Any  # bool [1 or examples, factors]: whether every weight is 0 or large enough to be multiplied


@kernel
def table_weights(theta, least, weight, tame):
    """Fills the rest of :class:`Weights`."""
    lowest = math.log(least)
    for row in range(theta.shape[0]):
        for factor in range(theta.shape[1]):
            top = -np.inf
            for cell in range(theta.shape[2]):
                top = max(top, theta[row, factor, cell])
            top = 0.0 if top == -np.inf else top
            fine = True
            for cell in range(theta.shape[2]):
                value = theta[row, factor, cell] - top
                weight[row, factor, cell] = value
                fine &= value > lowest or value == -np.inf
            tame[row, factor] = fine
    exp_all(weight.reshape(-1))


@kernel
def edges_sum(rows, edges, ranges, exponents, m, part, count):
    """The log messages of the edges ``ranges`` ``[ranges, 2]`` added up state by state, -inf counted apart.

    ``exponents``: the power with which each edge's message enters its variable, empty if all are 1."""
    for row in rows:
        for state in range(part.shape[1]):
            part[row, state] = 0.0
            count[row, state] = 0
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                first, power = edges.state[edge] - edges.slot[edge], 1.0
                if exponents.shape[0] > 0:
                    power = exponents[edge]
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    if m[row, slot] == -np.inf:
                        count[row, first + slot] += 1
                    else:
                        part[row, first + slot] += power * m[row, slot]


@kernel
def edges_hear(rows, edges, ranges, plain, sums, counts, m, n):
    """Messages of variables to the factors of some edges, each shifted to a largest of 0: sums of all messages less the
    factor's own ``m``, whose -inf can be taken out again if all exponents are 1 (``plain``)."""
    for row in rows:
        total, count, given, sent = sums[row], counts[row], m[row], n[row]
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                first, top = edges.state[edge] - edges.slot[edge], -np.inf
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    forbidden = given[slot] == -np.inf
                    others = count[first + slot] - (1 if forbidden and plain else 0)
                    value = total[first + slot] - (0.0 if forbidden else given[slot])
                    value = -np.inf if others > 0 else value
                    sent[slot] = value
                    top = max(top, value)
                if top > -np.inf:
                    for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                        sent[slot] -= top


@kernel
def edges_gather(rows, edges, ranges, of_n, of_m, of_sums):
    """Adjoint of :func:`edges_hear`: added to those of the sums, taken off those of the factor's own messages."""
    for row in rows:
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                first = edges.state[edge] - edges.slot[edge]
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    of_sums[row, first + slot] += of_n[row, slot]
                    of_m[row, slot] -= of_n[row, slot]


@kernel
def edges_spread(rows, edges, ranges, exponents, of_sums, of_m):
    """Adjoint of :func:`edges_sum`: each message gets its power times the adjoint of its sum."""
    for row in rows:
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                first, power = edges.state[edge] - edges.slot[edge], 1.0
                if exponents.shape[0] > 0:
                    power = exponents[edge]
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    of_m[row, slot] += power * of_sums[row, first + slot]


@kernel
def exponents_back(rows, edges, ranges, m, of_sums, of_exponents):
    """Adds the adjoints of the exponents: the messages ``m`` times the adjoints of their sums."""
    for row in rows:
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                first = edges.state[edge] - edges.slot[edge]
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    if m[row, slot] > -np.inf:
                        of_exponents[edge] += of_sums[row, first + slot] * m[row, slot]


@kernel
def beliefs_of(rows, state_start, sums, beliefs, change):
    """Normalises the logs ``sums`` into ``beliefs``; ``change[row]`` is the largest difference from what was there.

    Returns the first variable without a possible value, -1 if there is none."""
    dead = -1
    for row in rows:
        change[row] = 0.0
        for variable in range(state_start.shape[0] - 1):
            first, last = state_start[variable], state_start[variable + 1]
            top, mass = -np.inf, 0.0
            for state in range(first, last):
                top = max(top, sums[row, state])
            if not top > -np.inf:
                dead = variable if dead < 0 else min(dead, variable)
                continue
            for state in range(first, last):
                mass += math.exp(sums[row, state] - top)
            for state in range(first, last):
                value = math.exp(sums[row, state] - top) / mass
                change[row] = max(change[row], abs(value - beliefs[row, state]))
                beliefs[row, state] = value
    return dead


@kernel
def exponentials(rows, n, first, last, q):
    """``q``: the exponentials of some slots of ``n``."""
    for row in rows:
        part = q[row, first:last]
        for slot in range(last - first):
            part[slot] = n[row, first + slot]
        exp_all(part)


@callee
def _in_range(n, q, at, width, least):
    """Whether probabilities are large enough to be multiplied, or 0 because a value is ruled out."""
    fine = True
    for slot in range(at, at + width):
        fine &= q[slot] > least or n[slot] == -np.inf
    return fine


@callee
def _products(tables, weight, q, at, fresh):
    """Unnormalised messages of one factor into ``fresh``, from probabilities."""
    arity, cell_slots = tables.shape.shape[0], tables.cell_slots
    fresh[:] = 0.0
    if arity == 2:
        rows, columns = tables.shape[0], tables.shape[1]
        for a in range(rows):
            value, mine = 0.0, q[at + a]
            for b in range(columns):
                cell = weight[a * columns + b]
                value += cell * q[at + rows + b]
                fresh[rows + b] += cell * mine
            fresh[a] = value
        return
    for cell in range(weight.shape[0]):
        if weight[cell] == 0.0:
            continue
        for position in range(arity):
            value = weight[cell]
            for other in range(arity):
                if other != position:
                    value *= q[at + cell_slots[cell, other]]
            fresh[cell_slots[cell, position]] += value
    return


@callee
def _log_products(tables, theta, n, at, tops, fresh):
    """Unnormalised messages of one factor, in logs, into ``fresh``."""
    arity, cell_slots = tables.shape.shape[0], tables.cell_slots
    tops[:] = -np.inf
    fresh[:] = 0.0
    for turn in range(2):
        for cell in range(theta.shape[0]):
            for position in range(arity):
                value = theta[cell]
                for other in range(arity):
                    if other != position:
                        value += n[at + cell_slots[cell, other]]
                slot = cell_slots[cell, position]
                if turn == 0:
                    tops[slot] = max(tops[slot], value)
                elif value > -np.inf:
                    fresh[slot] += math.exp(value - tops[slot])
    for slot in range(fresh.shape[0]):
        fresh[slot] = tops[slot] + math.log(fresh[slot]) if fresh[slot] > 0.0 else -np.inf


@kernel
def tables_send(rows, tables, weights, n, q, m):
    """Normalised log messages of one group of table factors into ``m``; ``q``: exponentials of ``n``."""
    arity, width = tables.shape.shape[0], 0
    for position in range(arity):
        width += tables.shape[position]
    fresh, tops = np.empty(width), np.empty(width)
    binary = arity == 2 and tables.shape[0] == 2 and tables.shape[1] == 2
    start, end = tables.slot_start, tables.slot_start + tables.count * width
    strayed = np.empty(tables.count, np.int64)
    for row in rows:
        which, left = row if weights.theta.shape[0] > 1 else 0, 0
        given, out = q[row], m[row]
        for factor in range(tables.count):
            at = start + factor * width
            weight = weights.weight[which, factor]
            if binary:
                a0, a1, b0, b1 = given[at], given[at + 1], given[at + 2], given[at + 3]
                if weights.tame[which, factor] and min(min(a0, a1), min(b0, b1)) > tables.least:
                    x0, x1 = weight[0] * b0 + weight[1] * b1, weight[2] * b0 + weight[3] * b1
                    y0, y1 = weight[0] * a0 + weight[2] * a1, weight[1] * a0 + weight[3] * a1
                    share = 1.0 / (x0 + x1)
                    out[at], out[at + 1] = x0 * share, x1 * share
                    share = 1.0 / (y0 + y1)
                    out[at + 2], out[at + 3] = y0 * share, y1 * share
                    continue
            if not (weights.tame[which, factor] and _in_range(n[row], given, at, width, tables.least)):
                strayed[left] = factor
                left += 1
                continue
            _products(tables, weight, given, at, fresh)
            first = 0
            for position in range(arity):
                last, mass = first + tables.shape[position], 0.0
                for slot in range(first, last):
                    mass += fresh[slot]
                share = 1.0 / mass if mass > 0.0 else 0.0
                for slot in range(first, last):
                    out[at + slot] = fresh[slot] * share
                first = last
        log_all(out[start:end])
        for place in range(left):
            factor = strayed[place]
            at = start + factor * width
            _log_products(tables, weights.theta[which, factor], n[row], at, tops, fresh)
            first = 0
            for position in range(arity):
                last = first + tables.shape[position]
                normalise_log(fresh, first, last)
                for slot in range(first, last):
                    out[at + slot] = fresh[slot]
                first = last


@kernel
def tables_back(rows, tables, weights, n, q, of_m, of_n, of_theta):
    """Adjoint of :func:`tables_send`: adds to ``of_n`` and ``of_theta`` what ``of_m`` comes from.

    With r = adjoint / unnormalised message, normalisation undone, a cell and its other messages get r theta prod n. A
    value that is ruled out hands nothing on."""
    arity, width = tables.shape.shape[0], 0
    for position in range(arity):
        width += tables.shape[position]
    fresh, tops, rates = np.empty(width), np.empty(width), np.empty(width)
    start = tables.slot_start
    cells = weights.theta.shape[2]
    binary = arity == 2 and tables.shape[0] == 2 and tables.shape[1] == 2
    for row in rows:
        which = row if weights.theta.shape[0] > 1 else 0
        given, back, spread = q[row], of_m[row], of_n[row]
        for factor in range(tables.count):
            at = start + factor * width
            weight, own = weights.weight[which, factor], of_theta[which, factor]
            tame = weights.tame[which, factor]
            if binary:
                a0, a1, b0, b1 = given[at], given[at + 1], given[at + 2], given[at + 3]
                if tame and min(min(a0, a1), min(b0, b1)) > tables.least:
                    w0, w1, w2, w3 = weight[0], weight[1], weight[2], weight[3]
                    x0, x1 = w0 * b0 + w1 * b1, w2 * b0 + w3 * b1
                    y0, y1 = w0 * a0 + w2 * a1, w1 * a0 + w3 * a1
                    mean = (back[at] + back[at + 1]) / (x0 + x1)
                    r0 = back[at] / x0 - mean if x0 > 0.0 else 0.0
                    r1 = back[at + 1] / x1 - mean if x1 > 0.0 else 0.0
                    mean = (back[at + 2] + back[at + 3]) / (y0 + y1)
                    s0 = back[at + 2] / y0 - mean if y0 > 0.0 else 0.0
                    s1 = back[at + 3] / y1 - mean if y1 > 0.0 else 0.0
                    own[0] += w0 * (r0 * b0 + s0 * a0)
                    own[1] += w1 * (r0 * b1 + s1 * a0)
                    own[2] += w2 * (r1 * b0 + s0 * a1)
                    own[3] += w3 * (r1 * b1 + s1 * a1)
                    spread[at] += a0 * (w0 * s0 + w1 * s1)
                    spread[at + 1] += a1 * (w2 * s0 + w3 * s1)
                    spread[at + 2] += b0 * (w0 * r0 + w2 * r1)
                    spread[at + 3] += b1 * (w1 * r0 + w3 * r1)
                    continue
            log = not (tame and _in_range(n[row], given, at, width, tables.least))
            if log:
                _log_products(tables, weights.theta[which, factor], n[row], at, tops, fresh)
            else:
                _products(tables, weight, given, at, fresh)
            first = 0
            for position in range(arity):  # rates: in the log domain the adjoints themselves, fresh the logs of sums
                last, total, mass = first + tables.shape[position], 0.0, 0.0
                for slot in range(first, last):
                    total += back[at + slot]
                    mass += 0.0 if log else fresh[slot]
                norm = normalise_log(fresh, first, last) if log else 0.0
                for slot in range(first, last):
                    if log:
                        rates[slot] = back[at + slot] - total * math.exp(fresh[slot]) if fresh[slot] > -np.inf else 0.0
                        fresh[slot] += norm
                    else:
                        rates[slot] = back[at + slot] / fresh[slot] - total / mass if fresh[slot] > 0.0 else 0.0
                first = last
            for cell in range(cells):
                if weights.theta[which, factor, cell] == -np.inf:
                    continue
                for position in range(arity):
                    slot = tables.cell_slots[cell, position]
                    if rates[slot] == 0.0:
                        continue
                    value = weights.theta[which, factor, cell] - fresh[slot] if log else weight[cell]
                    for other in range(arity):
                        if other != position:
                            there = at + tables.cell_slots[cell, other]
                            value = value + n[row, there] if log else value * given[there]
                    value = rates[slot] * (math.exp(value) if log else value)
                    own[cell] += value
                    for other in range(arity):
                        if other != position:
                            spread[at + tables.cell_slots[cell, other]] += value


@kernel
def largest_change(rows, new, old, change):
    """``change[row]``: by how many nats a normalised log message changed at most, rounding of the logarithms apart."""
    for row in rows:
        most = 0.0
        for slot in range(new.shape[1]):
            one, two = new[row, slot], old[row, slot]
            if one != two:
                moved = abs(one - two)
                most = max(most, moved - 8.881784197001252e-16 * max(1.0, max(abs(one), abs(two))))
        change[row] = most


@kernel
def edges_normalise(rows, edges, ranges, given, m):
    """Copies the messages of some edges, normalised."""
    for row in rows:
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    m[row, slot] = given[row, slot]
                normalise_log(m[row], edges.slot[edge], edges.slot[edge + 1])


@kernel
def part_changes(part, near, new, old, change):
    """``change[p]``: by how many nats a normalised log message of part ``p`` moved at most, where ``near[p]``; 0 for
    other parts."""
    rounding = limits_of(new)[1]
    for p in range(change.shape[0]):
        change[p] = 0.0
    for place in range(new.shape[0]):
        p = part[place]
        if near[p]:
            change[p] = max(change[p], log_change(new[place], old[place], rounding))
