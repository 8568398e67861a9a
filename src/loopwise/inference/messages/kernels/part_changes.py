"""How far beliefs and messages moved, part by part of a union, and which parts are done.

In: messages after each of some sweeps, in any arrangement. Out: the sweep after which each part is done. Stage: below
inference. What counts as a change, and when a part is judged by its messages, is as in ``convergence``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.convergence import NEAR, limits_of, log_change, ratio_of


class PartGraph(NamedTuple):
    """A union as the kernels below read it: messages variable after variable, edge after edge."""

    part_start: Any  # [parts + 1] first variable
    state_start: Any  # [variables + 1]
    first: Any  # [variables + 1] first message
    place: Any  # [slots] where each number of a message stands in an array of messages
    edge: Any  # [variables + 1] first edge
    exponents: Any  # [edges], empty if all are 1
    unary: Any  # [states] logarithms, or probabilities up to a factor a variable


class PartState(NamedTuple):
    """What is known of each part; of those that are not ``living`` nothing is changed."""

    beliefs: Any  # [states]
    living: Any  # bool [parts]
    expected: Any
    previous: Any
    residual: Any
    sweeps: Any
    stop: Any  # the row of messages after which it was done, -1 if it is not


class PartRule(NamedTuple):
    """When a part is done."""

    tolerance: Any
    threshold: Any
    reach: Any  # [parts] how far a belief can move when a log message moves by one nat; empty: messages do not count
    enough: Any  # [parts] sweeps after which nothing can change any more, 0 where there is no such number


@kernel
def part_changes(part, near, new, old, log, change):
    """``change[p]``: by how many nats a normalised log message of part ``p`` moved at most, where ``near[p]``; 0 for
    other parts. ``part[place]`` is -1 where no message stands; ``log``: whether messages are logarithms."""
    tiny, rounding = limits_of(new)
    for p in range(change.shape[0]):
        change[p] = 0.0 if log else 1.0
    for place in range(new.shape[0]):
        p = part[place]
        if p >= 0 and near[p]:
            if log:
                change[p] = max(change[p], log_change(new[place], old[place], rounding))
            else:
                change[p] = max(change[p], ratio_of(new[place], old[place], tiny))
    if not log:
        for p in range(change.shape[0]):
            change[p] = max(math.log(change[p]) - rounding, 0.0)


@callee
def _gather(graph, part, m, into):
    """The messages of one part in a row; how many numbers they are."""
    low, high = graph.first[graph.part_start[part]], graph.first[graph.part_start[part + 1]]
    for at in range(low, high):
        into[at - low] = m[graph.place[at]]
    return high - low


@callee
def _log_belief(graph, variable, m, at, room):
    """The belief of one variable from log messages ``m[at:]`` into ``room``."""
    start = graph.state_start[variable]
    size, top, mass = graph.state_start[variable + 1] - start, -np.inf, 0.0
    for value in range(size):
        room[value] = graph.unary[start + value]
    for edge in range(graph.edge[variable], graph.edge[variable + 1]):
        power = graph.exponents[edge] if graph.exponents.shape[0] > 0 else 1.0
        for value in range(size):
            message = m[at + value]
            room[value] = room[value] + power * message if message > -np.inf else -np.inf
        at += size
    for value in range(size):
        top = max(top, room[value])
    for value in range(size):
        room[value] = math.exp(room[value] - top)
        mass += room[value]
    for value in range(size):
        room[value] /= mass


@callee
def _belief(graph, variable, m, at, room):
    """The same from messages that are probabilities; products are brought back into range as they go."""
    start = graph.state_start[variable]
    size, mass = graph.state_start[variable + 1] - start, 0.0
    for value in range(size):
        room[value] = graph.unary[start + value]
    for edge in range(graph.edge[variable], graph.edge[variable + 1]):
        top = 0.0
        if graph.exponents.shape[0] > 0:
            power = graph.exponents[edge]
            for value in range(size):
                room[value] *= m[at + value] ** power
                top = max(top, room[value])
        else:
            for value in range(size):
                room[value] *= m[at + value]
                top = max(top, room[value])
        if top < 1e-100:
            for value in range(size):
                room[value] /= top
        at += size
    for value in range(size):
        mass += room[value]
    scale = 1.0 / mass
    for value in range(size):
        room[value] *= scale


@callee
def _belief_change(graph, part, m, log, beliefs, room):
    """By how much a belief of one part moved at most; ``beliefs`` are then those of the messages ``m``."""
    most, begin = 0.0, graph.first[graph.part_start[part]]
    for variable in range(graph.part_start[part], graph.part_start[part + 1]):
        if log:
            _log_belief(graph, variable, m, graph.first[variable] - begin, room)
        else:
            _belief(graph, variable, m, graph.first[variable] - begin, room)
        start = graph.state_start[variable]
        for value in range(graph.state_start[variable + 1] - start):
            most = max(most, abs(room[value] - beliefs[start + value]))
            beliefs[start + value] = room[value]
    return most


@callee
def _moved(new, old, count, log):
    """By how many nats one of ``count`` numbers of messages moved at most."""
    tiny, rounding = limits_of(new)
    most = 0.0 if log else 1.0
    for at in range(count):
        if log:
            most = max(most, log_change(new[at], old[at], rounding))
        else:
            most = max(most, ratio_of(new[at], old[at], tiny))
    return most if log else max(math.log(most) - rounding, 0.0)


@kernel
def judge_parts(graph, kept, log, first, state, rule):
    """Goes through the messages ``kept`` ``[sweeps + 1, numbers]`` after sweep ``first`` and those that follow, part by
    part, until each is done."""
    room = np.empty(np.max(np.diff(graph.state_start)) if graph.state_start.shape[0] > 1 else 1)
    widest = np.max(np.diff(graph.first[graph.part_start])) if graph.part_start.shape[0] > 1 else 0
    new, old = np.empty(widest, kept.dtype), np.empty(widest, kept.dtype)
    for part in range(state.living.shape[0]):
        if not state.living[part]:
            continue
        expected, previous = state.expected[part], state.previous[part]
        count = _gather(graph, part, kept[0], new)
        for row in range(1, kept.shape[0]):
            new, old = old, new
            _gather(graph, part, kept[row], new)
            change = _belief_change(graph, part, new, log, state.beliefs, room)
            left = change if change > rule.threshold else previous
            if expected <= NEAR * rule.threshold:
                moved = rule.reach[part] * _moved(new, old, count, log) if rule.reach.shape[0] > 0 else 0.0
                left = change if moved <= rule.threshold else max(change, moved)
            shrinks = 0 < change < previous < np.inf
            expected, previous = change * change / previous if shrinks else change, change
            state.residual[part], state.sweeps[part] = left, first + row
            if left < rule.tolerance or (rule.enough[part] > 0 and first + row >= rule.enough[part]):
                state.stop[part] = row
                break
        state.expected[part], state.previous[part] = expected, previous
