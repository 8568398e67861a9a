"""BP on one graph for many rows of evidence, each with a pattern of its own: compiled loops.

In: flat tables, integers of the graph, rows of values (-1: free). Out: beliefs of every row; losses and their gradient.
Below the stages.

A row looks only at what it leaves open: a factor with one free variable is added to that variable's potential, one
without any is passed over, and messages go between the free variables of the others. So a row costs what its own free
part costs, whatever its neighbours in the batch look like, and no graph is sliced anew. Messages are in the probability
domain, each with a maximum of 1; potentials of single variables are sums of logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel

AXES = 3  # variables of a factor at most
LEAST = 1e-300  # a belief counts as no less, in losses
SMALL = 1e-100  # products of messages below this are scaled up
NATS = 650.0  # what the potentials of a variable may span


class RowGraph(NamedTuple):
    """Integers of a graph: factor ``f`` has the variables ``scope[f]`` (-1: none), and the cell ``x`` of its table at
    ``first[f] + x @ stride[f]``."""

    cardinality: np.ndarray  # [variables]
    start: np.ndarray  # [variables + 1]: first state of each
    scope: np.ndarray  # [factors, AXES]
    stride: np.ndarray  # [factors, AXES]
    first: np.ndarray  # [factors]


class Scratch(NamedTuple):
    """What a row needs, for one row at a time."""

    log_unary: np.ndarray  # [states]
    unary: np.ndarray  # [states]
    belief: np.ndarray  # [states]
    cell: np.ndarray  # [factors]: first cell of the free part of each active factor
    variable: np.ndarray  # [factors, AXES]: its free variables, -1 where there are fewer
    step: np.ndarray  # [factors, AXES]: their strides
    slot: np.ndarray  # [factors, AXES]: where their messages begin
    to_factor: np.ndarray  # [sweeps, slots]
    to_variable: np.ndarray  # [sweeps, slots], before they are scaled
    message: np.ndarray  # [slots]
    adjoint: np.ndarray  # [slots]
    next_adjoint: np.ndarray  # [slots]
    state_adjoint: np.ndarray  # [states]


@kernel
def scratch_for(graph, sweeps):
    """Uninitialised memory for the rows of a graph."""
    states, factors = graph.start[-1], len(graph.first)
    slots = 1
    for factor in range(factors):
        for axis in range(AXES):
            if graph.scope[factor, axis] >= 0:
                slots += graph.cardinality[graph.scope[factor, axis]]
    return Scratch(
        np.empty(states), np.empty(states), np.empty(states), np.empty(factors, np.int64),
        np.empty((factors, AXES), np.int64), np.empty((factors, AXES), np.int64), np.empty((factors, AXES), np.int64),
        np.empty((sweeps, slots)), np.empty((sweeps, slots)), np.empty(slots), np.empty(slots), np.empty(slots),
        np.empty(states),
    )  # fmt: skip


@callee
def _slice(graph, values, tables, work):
    """Folds factors with one free variable, lists those with more: their number."""
    for state in range(graph.start[-1]):
        work.log_unary[state] = 0.0
    active, slots = 0, 0
    for factor in range(len(graph.first)):
        cell, free = graph.first[factor], 0
        for axis in range(AXES):
            variable = graph.scope[factor, axis]
            if variable >= 0:
                value = values[variable]
                if value >= 0:
                    cell += value * graph.stride[factor, axis]
                else:
                    work.variable[active, free] = variable
                    work.step[active, free] = graph.stride[factor, axis]
                    free += 1
        if free == 1:
            state, step = graph.start[work.variable[active, 0]], work.step[active, 0]
            for value in range(graph.cardinality[work.variable[active, 0]]):
                work.log_unary[state + value] += tables[cell + value * step]
        elif free > 1:
            work.cell[active] = cell
            for axis in range(free):
                work.slot[active, axis] = slots
                slots += graph.cardinality[work.variable[active, axis]]
            for axis in range(free, AXES):
                work.variable[active, axis] = -1
                work.step[active, axis] = 0
                work.slot[active, axis] = -1
            active += 1
    for slot in range(slots):
        work.message[slot] = 1.0
    return active, slots


@callee
def _exponentiate(graph, values, work):
    for variable in range(len(graph.cardinality)):
        if values[variable] < 0:
            first, end = graph.start[variable], graph.start[variable + 1]
            highest = -np.inf
            for state in range(first, end):
                highest = max(highest, work.log_unary[state])
            for state in range(first, end):
                work.unary[state] = np.exp(max(work.log_unary[state] - highest, -NATS))


@callee
def _multiply(graph, work, active):
    """Products of all messages to each variable with its own potential, each up to a factor."""
    for state in range(graph.start[-1]):
        work.belief[state] = work.unary[state]
    for place in range(active):
        for axis in range(AXES):
            variable = work.variable[place, axis]
            if variable >= 0:
                state, slot = graph.start[variable], work.slot[place, axis]
                highest = 0.0
                for value in range(graph.cardinality[variable]):
                    work.belief[state + value] *= work.message[slot + value]
                    highest = max(highest, work.belief[state + value])
                if highest < SMALL:
                    for value in range(graph.cardinality[variable]):
                        work.belief[state + value] /= highest


@callee
def _send_to_factors(graph, work, active, out):
    """Each variable's product without the factor's own message, with a sum of 1."""
    for place in range(active):
        for axis in range(AXES):
            variable = work.variable[place, axis]
            if variable >= 0:
                state, slot = graph.start[variable], work.slot[place, axis]
                total = 0.0
                for value in range(graph.cardinality[variable]):
                    out[slot + value] = work.belief[state + value] / work.message[slot + value]
                    total += out[slot + value]
                for value in range(graph.cardinality[variable]):
                    out[slot + value] /= total


@callee
def _sizes(graph, work, place):
    last = work.variable[place, 2]
    third = graph.cardinality[last] if last >= 0 else 1
    return graph.cardinality[work.variable[place, 0]], graph.cardinality[work.variable[place, 1]], third


@callee
def _send_to_variables(graph, work, active, slots, potentials, given, out):
    """Sums over the cells of each factor, for all its variables in one pass."""
    for slot in range(slots):
        out[slot] = 0.0
    for place in range(active):
        rows, columns, layers = _sizes(graph, work, place)
        one, two, three = work.slot[place]
        for a in range(rows):
            for b in range(columns):
                cell = work.cell[place] + a * work.step[place, 0] + b * work.step[place, 1]
                both, mine, other = given[one + a] * given[two + b], given[one + a], given[two + b]
                if three < 0:
                    out[one + a] += potentials[cell] * other
                    out[two + b] += potentials[cell] * mine
                else:
                    inner = 0.0
                    for c in range(layers):
                        weight = potentials[cell + c * work.step[place, 2]]
                        inner += weight * given[three + c]
                        out[three + c] += weight * both
                    out[one + a] += inner * other
                    out[two + b] += inner * mine


@callee
def _scale(graph, work, active, given):
    """Messages with a maximum of 1."""
    for place in range(active):
        for axis in range(AXES):
            variable = work.variable[place, axis]
            if variable >= 0:
                slot, size = work.slot[place, axis], graph.cardinality[variable]
                highest = 0.0
                for value in range(size):
                    highest = max(highest, given[slot + value])
                for value in range(size):
                    work.message[slot + value] = given[slot + value] / highest


@callee
def _normalise(graph, values, work):
    """Beliefs with a sum of 1; a known value is certain."""
    for variable in range(len(values)):
        first, end = graph.start[variable], graph.start[variable + 1]
        if values[variable] >= 0:
            for state in range(first, end):
                work.belief[state] = 0.0
            work.belief[first + values[variable]] = 1.0
        else:
            total = 0.0
            for state in range(first, end):
                total += work.belief[state]
            for state in range(first, end):
                work.belief[state] /= total


@callee
def _forward(graph, values, tables, potentials, sweeps, work):
    """Flooding sweeps of one row, whose messages are all kept; the numbers of active factors and of slots."""
    active, slots = _slice(graph, values, tables, work)
    _exponentiate(graph, values, work)
    if active > 0:
        for sweep in range(sweeps):
            _multiply(graph, work, active)
            _send_to_factors(graph, work, active, work.to_factor[sweep])
            _send_to_variables(graph, work, active, slots, potentials, work.to_factor[sweep], work.to_variable[sweep])
            _scale(graph, work, active, work.to_variable[sweep])
    _multiply(graph, work, active)
    _normalise(graph, values, work)
    return active, slots


@callee
def _loss_of_row(graph, values, targets, weights, work):
    """Weighted log-losses of the targets, and the adjoint of the logarithms of beliefs before they are normalised."""
    loss = 0.0
    for state in range(graph.start[-1]):
        work.state_adjoint[state] = 0.0
    for variable in range(len(values)):
        if values[variable] < 0 and targets[variable] >= 0 and weights[variable] != 0.0:
            first = graph.start[variable]
            weight = weights[variable]
            loss -= weight * np.log(max(work.belief[first + targets[variable]], LEAST))
            for state in range(first, graph.start[variable + 1]):
                work.state_adjoint[state] = weight * work.belief[state]
            work.state_adjoint[first + targets[variable]] -= weight
    return loss


@callee
def _undo_to_variables(graph, work, active, potentials, sent, received, gradient):
    """Adjoints of messages to variables become those of tables, and, in ``next_adjoint``, of messages to factors."""
    for place in range(active):
        rows, columns, layers = _sizes(graph, work, place)
        one, two, three = work.slot[place]
        for a in range(rows):
            by_one = work.adjoint[one + a] / received[one + a]
            for b in range(columns):
                by_two = work.adjoint[two + b] / received[two + b]
                cell = work.cell[place] + a * work.step[place, 0] + b * work.step[place, 1]
                mine, other = sent[one + a], sent[two + b]
                if three < 0:
                    weight = potentials[cell]
                    first, second = by_one * weight * other, by_two * weight * mine
                    gradient[cell] += first + second
                    work.next_adjoint[two + b] += first
                    work.next_adjoint[one + a] += second
                else:
                    for c in range(layers):
                        place_of = cell + c * work.step[place, 2]
                        weight, layer = potentials[place_of], sent[three + c]
                        first = by_one * weight * other * layer
                        second = by_two * weight * mine * layer
                        third = work.adjoint[three + c] / received[three + c] * weight * mine * other
                        gradient[place_of] += first + second + third
                        work.next_adjoint[one + a] += second + third
                        work.next_adjoint[two + b] += first + third
                        work.next_adjoint[three + c] += first + second


@callee
def _undo_to_factors(graph, work, active, sent, log_unary_adjoint):
    """Adjoints of messages to factors become those of potentials, and of the messages that these are made of."""
    for state in range(graph.start[-1]):
        work.state_adjoint[state] = 0.0
    for place in range(active):
        for axis in range(AXES):
            variable = work.variable[place, axis]
            if variable >= 0:
                state, slot = graph.start[variable], work.slot[place, axis]
                total = 0.0
                for value in range(graph.cardinality[variable]):
                    total += work.next_adjoint[slot + value]
                for value in range(graph.cardinality[variable]):
                    work.next_adjoint[slot + value] -= sent[slot + value] * total
                    work.state_adjoint[state + value] += work.next_adjoint[slot + value]
    for state in range(graph.start[-1]):
        log_unary_adjoint[state] += work.state_adjoint[state]
    for place in range(active):
        for axis in range(AXES):
            variable = work.variable[place, axis]
            if variable >= 0:
                state, slot = graph.start[variable], work.slot[place, axis]
                for value in range(graph.cardinality[variable]):
                    work.adjoint[slot + value] = work.state_adjoint[state + value] - work.next_adjoint[slot + value]


@callee
def _backward(graph, values, potentials, sweeps, work, active, slots, gradient):
    """Adds the gradient with respect to log tables, from the adjoint of a row's beliefs in ``state_adjoint``."""
    total = work.unary  # no longer needed: here the adjoint of potentials of single variables
    for state in range(graph.start[-1]):
        total[state] = work.state_adjoint[state]
    if active > 0:
        for place in range(active):
            for axis in range(AXES):
                variable = work.variable[place, axis]
                if variable >= 0:
                    state, slot = graph.start[variable], work.slot[place, axis]
                    for value in range(graph.cardinality[variable]):
                        work.adjoint[slot + value] = work.state_adjoint[state + value]
        for back in range(sweeps):
            sweep = sweeps - 1 - back
            for slot in range(slots):
                work.next_adjoint[slot] = 0.0
            _undo_to_variables(
                graph, work, active, potentials, work.to_factor[sweep], work.to_variable[sweep], gradient
            )
            _undo_to_factors(graph, work, active, work.to_factor[sweep], total)
    for factor in range(len(graph.first)):
        cell, free, variable, step = graph.first[factor], 0, 0, 0
        for axis in range(AXES):
            if graph.scope[factor, axis] >= 0:
                value = values[graph.scope[factor, axis]]
                if value >= 0:
                    cell += value * graph.stride[factor, axis]
                else:
                    variable, step = graph.scope[factor, axis], graph.stride[factor, axis]
                    free += 1
        if free == 1:
            state = graph.start[variable]
            for value in range(graph.cardinality[variable]):
                gradient[cell + value * step] += total[state + value]


@kernel
def beliefs_of_rows(graph, rows, tables, potentials, sweeps, out):
    """Beliefs ``[rows, states]`` after ``sweeps`` flooding sweeps, given the values of each row (-1: free)."""
    work = scratch_for(graph, sweeps)
    for row in range(len(rows)):
        _forward(graph, rows[row], tables, potentials, sweeps, work)
        for state in range(graph.start[-1]):
            out[row, state] = work.belief[state]


@kernel
def loss_of_rows(graph, rows, targets, weights, tables, potentials, sweeps, gradient):
    r"""The sum over rows of :math:`-\sum_v w_v\log b_v(\text{target})` over free variables with a target (at least 0);
    its gradient with respect to the log tables, through all sweeps, is added to ``gradient``."""
    work = scratch_for(graph, sweeps)
    loss = 0.0
    for row in range(len(rows)):
        active, slots = _forward(graph, rows[row], tables, potentials, sweeps, work)
        loss += _loss_of_row(graph, rows[row], targets[row], weights[row], work)
        _backward(graph, rows[row], potentials, sweeps, work, active, slots, gradient)
    return loss


@kernel
def pull_back_rows(graph, rows, adjoints, tables, potentials, sweeps, gradient):
    """Adds the gradient of any function of the beliefs, given its derivative by each belief, ``[rows, states]``."""
    work = scratch_for(graph, sweeps)
    for row in range(len(rows)):
        active, slots = _forward(graph, rows[row], tables, potentials, sweeps, work)
        for variable in range(len(graph.cardinality)):
            first, end = graph.start[variable], graph.start[variable + 1]
            mean = 0.0
            for state in range(first, end):
                mean += work.belief[state] * adjoints[row, state]
            for state in range(first, end):
                free = rows[row, variable] < 0
                work.state_adjoint[state] = work.belief[state] * (adjoints[row, state] - mean) if free else 0.0
        _backward(graph, rows[row], potentials, sweeps, work, active, slots, gradient)
