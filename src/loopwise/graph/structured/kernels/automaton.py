"""Messages of factors that a finite automaton reads (parity, counts, logic, one of many), and their adjoint.

In: log messages ``[examples, slots]`` of binary variables, transitions, log weights of the states at the end. Out:
normalised log messages; adjoints. Stage: below inference. Log domain, sums of positive terms only; both directions are
shifted to a largest of 0 at every variable, so that long scopes keep their digits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import log_add
from loopwise.compiled.decorators import fused_callee, fused_kernel


class Automata(NamedTuple):
    """Several factors; those of one structure share their transitions."""

    slot_start: Any  # [factors]
    variables: Any
    states: Any
    move_start: Any  # where the transitions [variables, states, 2] of each begin
    moves: Any  # -1: none
    final_start: Any  # where the log weights [states] of the end of each begin


@fused_callee
def shift(values, first, last):
    """Takes the largest off; returns it."""
    top = -np.inf
    for place in range(first, last):
        top = max(top, values[place])
    if top == -np.inf:
        return 0.0
    for place in range(first, last):
        values[place] -= top
    return top


@fused_callee
def _read(automata, factor, final, incoming, before, after, shifts):
    """Fills ``before`` and ``after`` (variable by variable, state by state) and, for each variable, what was taken off
    both; returns whether any assignment is possible."""
    variables, states, slots = automata.variables[factor], automata.states[factor], automata.slot_start[factor]
    moves, m0, f0 = automata.moves, automata.move_start[factor], automata.final_start[factor]
    for state in range(states):
        after[variables * states + state] = final[f0 + state]
        before[state] = 0.0 if state == 0 else -np.inf
    for variable in range(variables - 1, -1, -1):
        off, on, here = incoming[slots + 2 * variable], incoming[slots + 2 * variable + 1], variable * states
        for state in range(states):
            zero, one = moves[m0 + 2 * (here + state)], moves[m0 + 2 * (here + state) + 1]
            value = off + after[here + states + zero] if zero >= 0 else -np.inf
            if one >= 0:
                value = log_add(value, on + after[here + states + one])
            after[here + state] = value
        shifts[1, variable] = shift(after, here, here + states)
    for variable in range(variables - 1):
        off, on, here = incoming[slots + 2 * variable], incoming[slots + 2 * variable + 1], variable * states
        for state in range(states):
            before[here + states + state] = -np.inf
        for state in range(states):
            for value in range(2):
                to = moves[m0 + 2 * (here + state) + value]
                if to >= 0:
                    weight = before[here + state] + (on if value else off)
                    before[here + states + to] = log_add(before[here + states + to], weight)
        shifts[0, variable + 1] = shift(before, here + states, here + 2 * states)
    return after[0] > -np.inf


@fused_callee
def _message(automata, factor, variable, value, before, after):
    """log of the sum over states, for one value of one variable."""
    states = automata.states[factor]
    here, m0, total = variable * states, automata.move_start[factor], -np.inf
    for state in range(states):
        to = automata.moves[m0 + 2 * (here + state) + value]
        if to >= 0:
            total = log_add(total, before[here + state] + after[here + states + to])
    return total


@fused_callee
def _room(automata):
    """Numbers that the charts of the largest factor take, and its variables."""
    size, most = 0, 0
    for factor in range(automata.states.shape[0]):
        size = max(size, (automata.variables[factor] + 1) * automata.states[factor])
        most = max(most, automata.variables[factor] + 1)
    return size, most


@fused_kernel
def automata_send(rows, automata, final, incoming, outgoing, possible, done):
    """Messages of all factors but those ``done[row, factor]`` already; ``possible`` is False where no assignment is."""
    size, most = _room(automata)
    before, after, shifts = np.empty(size), np.empty(size), np.empty((2, most))
    for row in rows:
        weights = final[row if final.shape[0] > 1 else 0]
        for factor in range(automata.states.shape[0]):
            if done[row, factor]:
                continue
            possible[row, factor] = _read(automata, factor, weights, incoming[row], before, after, shifts)
            if not possible[row, factor]:
                continue
            for variable in range(automata.variables[factor]):
                at = automata.slot_start[factor] + 2 * variable
                off = _message(automata, factor, variable, 0, before, after)
                on = _message(automata, factor, variable, 1, before, after)
                total = log_add(off, on)
                outgoing[row, at], outgoing[row, at + 1] = off - total, on - total


@fused_kernel
def automata_back(rows, automata, final, incoming, of_outgoing, of_incoming, of_final, done):
    """Adjoint of :func:`automata_send`, whose charts are filled again: adds to ``of_incoming`` and ``of_final`` (one
    row for all examples, or one each). Adjoints are multiplied by shares only, which are at most 1."""
    size, most = _room(automata)
    before, after, shifts = np.empty(size), np.empty(size), np.empty((2, most))
    of_before, of_after, moves = np.empty(size), np.empty(size), automata.moves
    for row in rows:
        weights, of_weights = final[row if final.shape[0] > 1 else 0], of_final[row if of_final.shape[0] > 1 else 0]
        given, of_given = incoming[row], of_incoming[row]
        for factor in range(automata.states.shape[0]):
            if done[row, factor] or not _read(automata, factor, weights, given, before, after, shifts):
                continue
            variables, states, slots = automata.variables[factor], automata.states[factor], automata.slot_start[factor]
            m0, f0 = automata.move_start[factor], automata.final_start[factor]
            for place in range((variables + 1) * states):
                of_before[place] = of_after[place] = 0.0
            for variable in range(variables):
                at, here = slots + 2 * variable, variable * states
                off = _message(automata, factor, variable, 0, before, after)
                on = _message(automata, factor, variable, 1, before, after)
                both = of_outgoing[row, at] + of_outgoing[row, at + 1]
                total = log_add(off, on)
                for value in range(2):
                    message = on if value else off
                    if message == -np.inf:
                        continue
                    back = of_outgoing[row, at + value] - both * math.exp(message - total)
                    for state in range(states):
                        to = moves[m0 + 2 * (here + state) + value]
                        if to < 0:
                            continue
                        share = back * math.exp(before[here + state] + after[here + states + to] - message)
                        of_before[here + state] += share
                        of_after[here + states + to] += share
            for variable in range(variables - 2, -1, -1):
                here = variable * states
                for state in range(states):
                    for value in range(2):
                        to = moves[m0 + 2 * (here + state) + value]
                        if to < 0 or of_before[here + states + to] == 0.0:
                            continue
                        weight = before[here + state] + given[slots + 2 * variable + value] - shifts[0, variable + 1]
                        share = of_before[here + states + to] * math.exp(weight - before[here + states + to])
                        of_before[here + state] += share
                        of_given[slots + 2 * variable + value] += share
            for variable in range(1, variables):
                here = variable * states
                for state in range(states):
                    if of_after[here + state] == 0.0:
                        continue
                    for value in range(2):
                        to = moves[m0 + 2 * (here + state) + value]
                        if to < 0:
                            continue
                        weight = given[slots + 2 * variable + value] + after[here + states + to] - shifts[1, variable]
                        share = of_after[here + state] * math.exp(weight - after[here + state])
                        of_after[here + states + to] += share
                        of_given[slots + 2 * variable + value] += share
            for state in range(states):
                of_weights[f0 + state] += of_after[variables * states + state]
