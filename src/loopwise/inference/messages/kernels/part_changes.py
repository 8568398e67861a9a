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
    """A union as the kernels below read it."""

    part_start: Any  # [parts + 1] first variable
    state_start: Any  # [variables + 1]
    variable_edge_start: Any
    variable_edges: Any
    slot: Any  # [edges + 1] first slot
    place: Any  # [slots] where it stands in an array of messages
    exponents: Any  # [edges], empty if all are 1
    unary: Any  # [states] logarithms


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
def _belief(graph, variable, m, log, room):
    """The belief of one variable into ``room``."""
    first, last = graph.state_start[variable], graph.state_start[variable + 1]
    begin, end = graph.variable_edge_start[variable], graph.variable_edge_start[variable + 1]
    size, top, mass = last - first, -np.inf, 0.0
    for value in range(size):
        room[value] = graph.unary[first + value]
        top = max(top, room[value])
    if not log:  # products of probabilities, brought back into range as they go
        for value in range(size):
            room[value] = math.exp(room[value] - top)
    for at in range(begin, end):
        edge = graph.variable_edges[at]
        slot, power, top = graph.slot[edge], 1.0, 0.0 if not log else -np.inf
        if graph.exponents.shape[0] > 0:
            power = graph.exponents[edge]
        for value in range(size):
            message = m[graph.place[slot + value]]
            if log:
                room[value] = room[value] + power * message if message > -np.inf else -np.inf
            else:
                room[value] *= message if power == 1.0 else message**power
            top = max(top, room[value])
        if not log and top < 1e-100:
            for value in range(size):
                room[value] /= top
    for value in range(size):
        if log:
            room[value] = math.exp(room[value] - top)
        mass += room[value]
    for value in range(size):
        room[value] /= mass


@callee
def _moved(graph, part, new, old, log):
    """By how many nats a message of one part moved at most."""
    tiny, rounding = limits_of(new)
    most = 0.0 if log else 1.0
    for at in range(
        graph.variable_edge_start[graph.part_start[part]], graph.variable_edge_start[graph.part_start[part + 1]]
    ):
        edge = graph.variable_edges[at]
        for slot in range(graph.slot[edge], graph.slot[edge + 1]):
            place = graph.place[slot]
            if log:
                most = max(most, log_change(new[place], old[place], rounding))
            else:
                most = max(most, ratio_of(new[place], old[place], tiny))
    return most if log else max(math.log(most) - rounding, 0.0)


@kernel
def judge_parts(graph, kept, log, first, state, rule):
    """Goes through the messages ``kept`` ``[sweeps + 1, numbers]`` after sweep ``first`` and those that follow, part by
    part, until each is done."""
    room = np.empty(np.max(np.diff(graph.state_start)) if graph.state_start.shape[0] > 1 else 1)
    for part in range(state.living.shape[0]):
        if not state.living[part]:
            continue
        expected, previous = state.expected[part], state.previous[part]
        for row in range(1, kept.shape[0]):
            change = 0.0
            for variable in range(graph.part_start[part], graph.part_start[part + 1]):
                _belief(graph, variable, kept[row], log, room)
                start = graph.state_start[variable]
                for value in range(graph.state_start[variable + 1] - start):
                    change = max(change, abs(room[value] - state.beliefs[start + value]))
                    state.beliefs[start + value] = room[value]
            left = change if change > rule.threshold else previous
            if expected <= NEAR * rule.threshold:
                moved = 0.0
                if rule.reach.shape[0] > 0:
                    moved = rule.reach[part] * _moved(graph, part, kept[row], kept[row - 1], log)
                left = change if moved <= rule.threshold else max(change, moved)
            shrinks = 0 < change < previous < np.inf
            expected, previous = change * change / previous if shrinks else change, change
            state.residual[part], state.sweeps[part] = left, first + row
            if left < rule.tolerance or (rule.enough[part] > 0 and first + row >= rule.enough[part]):
                state.stop[part] = row
                break
        state.expected[part], state.previous[part] = expected, previous
