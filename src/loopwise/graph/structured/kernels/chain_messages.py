"""Messages of chains that stand in a larger graph, and their adjoint.

In: log messages ``[examples, slots]``, log tables of the steps of each chain. Out: normalised log messages; adjoints.
Stage: below inference. Log domain; both directions are shifted to a largest of 0 at every variable.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.compiled.elementary import normalise_log
from loopwise.graph.structured.kernels.automaton import shift


class ChainArrays(NamedTuple):
    """Several chains."""

    slot_start: Any  # [chains]
    length: Any
    states: Any
    step_start: Any  # where the tables [length - 1, states, states] of each begin


@fused_callee
def _log_sum(terms, count):
    top, total = -np.inf, 0.0
    for place in range(count):
        top = max(top, terms[place])
    if top == -np.inf:
        return top
    for place in range(count):
        total += math.exp(terms[place] - top)
    return top + math.log(total)


@fused_callee
def _read(length, states, steps, s0, incoming, slots, left, right, shifts, terms):
    """Log messages along the chain from both ends; whether any path is possible."""
    for state in range(states):
        left[state] = right[(length - 1) * states + state] = 0.0
    for at in range(length - 1):
        here, table = at * states, s0 + at * states * states
        for to in range(states):
            for state in range(states):
                terms[state] = left[here + state] + incoming[slots + here + state] + steps[table + state * states + to]
            left[here + states + to] = _log_sum(terms, states)
        shifts[0, at + 1] = shift(left, here + states, here + 2 * states)
    for at in range(length - 2, -1, -1):
        here, table = at * states, s0 + at * states * states
        for state in range(states):
            for to in range(states):
                there = here + states + to
                terms[to] = right[there] + incoming[slots + there] + steps[table + state * states + to]
            right[here + state] = _log_sum(terms, states)
        shifts[1, at] = shift(right, here, here + states)
    for state in range(states):
        terms[state] = left[(length - 1) * states + state] + incoming[slots + (length - 1) * states + state]
    return _log_sum(terms, states) > -np.inf


@fused_callee
def _room(chains):
    """Slots of the largest chain, its length and its states."""
    size, most, widest = 0, 0, 0
    for chain in range(chains.length.shape[0]):
        size = max(size, chains.length[chain] * chains.states[chain])
        most, widest = max(most, chains.length[chain]), max(widest, chains.states[chain])
    return size, most, widest


@fused_kernel
def chains_send(rows, chains, steps, incoming, outgoing, possible):
    """Messages of all chains; ``possible[row, chain]`` is False where no path is."""
    size, most, widest = _room(chains)
    left, right, shifts, terms = np.empty(size), np.empty(size), np.empty((2, most)), np.empty(widest)
    for row in rows:
        tables = steps[row if steps.shape[0] > 1 else 0]
        for chain in range(chains.length.shape[0]):
            length, states, slots = chains.length[chain], chains.states[chain], chains.slot_start[chain]
            possible[row, chain] = _read(
                length, states, tables, chains.step_start[chain], incoming[row], slots, left, right, shifts, terms
            )
            for at in range(length):
                first = at * states
                for slot in range(first, first + states):
                    outgoing[row, slots + slot] = left[slot] + right[slot]
                normalise_log(outgoing[row], slots + first, slots + first + states)


@fused_kernel
def chains_back(rows, chains, steps, incoming, of_outgoing, of_incoming, of_steps):
    """Adjoint of :func:`chains_send`, which is made again: adds to ``of_incoming`` and ``of_steps`` (one row for all
    examples, or one each)."""
    size, most, widest = _room(chains)
    left, right, shifts, terms = np.empty(size), np.empty(size), np.empty((2, most)), np.empty(widest)
    of_left, of_right, message = np.empty(size), np.empty(size), np.empty(widest)
    for row in rows:
        tables, of_tables = steps[row if steps.shape[0] > 1 else 0], of_steps[row if of_steps.shape[0] > 1 else 0]
        given, of_given = incoming[row], of_incoming[row]
        for chain in range(chains.length.shape[0]):
            length, states, slots = chains.length[chain], chains.states[chain], chains.slot_start[chain]
            s0 = chains.step_start[chain]
            if not _read(length, states, tables, s0, given, slots, left, right, shifts, terms):
                continue
            for at in range(length):
                total = 0.0
                for state in range(states):
                    message[state] = left[at * states + state] + right[at * states + state]
                    total += of_outgoing[row, slots + at * states + state]
                normalise_log(message, 0, states)
                for state in range(states):
                    slot = at * states + state
                    back = of_outgoing[row, slots + slot] - total * math.exp(message[state])
                    of_left[slot] = of_right[slot] = back if message[state] > -np.inf else 0.0
            for at in range(length - 2, -1, -1):
                here, table = at * states, s0 + at * states * states
                for to in range(states):
                    back, sent = of_left[here + states + to], left[here + states + to] + shifts[0, at + 1]
                    if back == 0.0:
                        continue
                    for state in range(states):
                        cell = table + state * states + to
                        share = back * math.exp(left[here + state] + given[slots + here + state] + tables[cell] - sent)
                        of_left[here + state] += share
                        of_given[slots + here + state] += share
                        of_tables[cell] += share
            for at in range(length - 1):
                here, table = at * states, s0 + at * states * states
                for state in range(states):
                    back, sent = of_right[here + state], right[here + state] + shifts[1, at]
                    if back == 0.0:
                        continue
                    for to in range(states):
                        cell, there = table + state * states + to, here + states + to
                        share = back * math.exp(right[there] + given[slots + there] + tables[cell] - sent)
                        of_right[there] += share
                        of_given[slots + there] += share
                        of_tables[cell] += share
