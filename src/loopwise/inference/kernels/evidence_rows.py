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


class RowArrays(NamedTuple):
    """Integers of a graph: factor ``f`` has the variables ``scope[f]`` (-1: none), and the cell ``x`` of its table at
    ``first[f] + x @ stride[f]``."""

    cardinality: np.ndarray  # [variables]
    start: np.ndarray  # [variables + 1]: first state of each
    scope: np.ndarray  # [factors, AXES]
    stride: np.ndarray  # [factors, AXES]
    first: np.ndarray  # [factors]


class RowScratch(NamedTuple):
    """What a row needs, for one row at a time."""

    log_unary: np.ndarray  # [states]
    unary: np.ndarray  # [states]
    belief: np.ndarray  # [states]
    cell: np.ndarray  # [factors]: first cell of the free part of each active factor
    variable: np.ndarray  # [factors, AXES]: its free variables, -1 where there are fewer
    step: np.ndarray  # [factors, AXES]: their strides
    slot: np.ndarray  # [factors, AXES]: where their messages begin
    first: np.ndarray  # [edges + 1]: where the messages of each edge begin, a free variable of an active factor
    state: np.ndarray  # [edges]: first state of its variable
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
    return RowScratch(
        np.empty(states), np.empty(states), np.empty(states), np.empty(factors, np.int64),
        np.empty((factors, AXES), np.int64), np.empty((factors, AXES), np.int64), np.empty((factors, AXES), np.int64),
        np.empty(AXES * factors + 1, np.int64), np.empty(AXES * factors, np.int64),
        np.empty((sweeps, slots)), np.empty((sweeps, slots)), np.empty(slots), np.empty(slots), np.empty(slots),
        np.empty(states),
    )  # fmt: skip


@callee
def _slice(graph, values, tables, work):
    """Folds factors with one free variable, lists those with more: their number, and that of their edges."""
    for state in range(graph.start[-1]):
        work.log_unary[state] = 0.0
    active, edges, slots = 0, 0, 0
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
                variable = work.variable[active, axis]
                work.slot[active, axis] = work.first[edges] = slots
                work.state[edges] = graph.start[variable]
                slots += graph.cardinality[variable]
                edges += 1
            for axis in range(free, AXES):
                work.variable[active, axis] = -1
                work.step[active, axis] = 0
                work.slot[active, axis] = -1
            active += 1
    work.first[edges] = slots
    for slot in range(slots):
        work.message[slot] = 1.0
    return active, edges


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
def _multiply(graph, work, edges):
    """Products of all messages to each variable with its own potential, each up to a factor."""
    for state in range(graph.start[-1]):
        work.belief[state] = work.unary[state]
    for edge in range(edges):
        first, end, shift = work.first[edge], work.first[edge + 1], work.state[edge] - work.first[edge]
        highest = 0.0
        for slot in range(first, end):
            work.belief[shift + slot] *= work.message[slot]
            highest = max(highest, work.belief[shift + slot])
        if highest < SMALL:
            for slot in range(first, end):
                work.belief[shift + slot] /= highest


@callee
def _send_to_factors(work, edges, out):
    """Each variable's product without the factor's own message, with a sum of 1."""
    for edge in range(edges):
        first, end, shift = work.first[edge], work.first[edge + 1], work.state[edge] - work.first[edge]
        total = 0.0
        for slot in range(first, end):
            out[slot] = work.belief[shift + slot] / work.message[slot]
            total += out[slot]
        for slot in range(first, end):
            out[slot] /= total


@callee
def _sizes(graph, work, place):
    last = work.variable[place, 2]
    third = graph.cardinality[last] if last >= 0 else 1
    return graph.cardinality[work.variable[place, 0]], graph.cardinality[work.variable[place, 1]], third


@callee
def _send_to_variables(graph, work, active, edges, potentials, given, out):
    """Sums over the cells of each factor, for all its variables in one pass."""
    for slot in range(work.first[edges]):
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
def _scale(work, edges, given):
    """Messages with a maximum of 1."""
    for edge in range(edges):
        first, end = work.first[edge], work.first[edge + 1]
        highest = 0.0
        for slot in range(first, end):
            highest = max(highest, given[slot])
        for slot in range(first, end):
            work.message[slot] = given[slot] / highest


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
    """Flooding sweeps of one row, whose messages are all kept; the numbers of active factors and of their edges."""
    active, edges = _slice(graph, values, tables, work)
    _exponentiate(graph, values, work)
    if active > 0:
        for sweep in range(sweeps):
            _multiply(graph, work, edges)
            _send_to_factors(work, edges, work.to_factor[sweep])
            _send_to_variables(graph, work, active, edges, potentials, work.to_factor[sweep], work.to_variable[sweep])
            _scale(work, edges, work.to_variable[sweep])
    _multiply(graph, work, edges)
    _normalise(graph, values, work)
    return active, edges


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
def _adjoints_of_edges(work, edges):
    """Gives each message the adjoint of its variable's states."""
    for edge in range(edges):
        shift = work.state[edge] - work.first[edge]
        for slot in range(work.first[edge], work.first[edge + 1]):
            work.adjoint[slot] = work.state_adjoint[shift + slot]


@callee
def _undo_to_factors(graph, work, edges, sent, log_unary_adjoint):
    """Adjoints of messages to factors become those of potentials, and of the messages that these are made of."""
    for state in range(graph.start[-1]):
        work.state_adjoint[state] = 0.0
    for edge in range(edges):
        first, end, shift = work.first[edge], work.first[edge + 1], work.state[edge] - work.first[edge]
        total = 0.0
        for slot in range(first, end):
            total += work.next_adjoint[slot]
        for slot in range(first, end):
            work.next_adjoint[slot] -= sent[slot] * total
            work.state_adjoint[shift + slot] += work.next_adjoint[slot]
    for state in range(graph.start[-1]):
        log_unary_adjoint[state] += work.state_adjoint[state]
    _adjoints_of_edges(work, edges)
    for slot in range(work.first[edges]):
        work.adjoint[slot] -= work.next_adjoint[slot]


@callee
def _backward(graph, values, potentials, sweeps, work, active, edges, gradient):
    """Adds the gradient with respect to log tables, from the adjoint of a row's beliefs in ``state_adjoint``."""
    total = work.unary  # no longer needed: here the adjoint of potentials of single variables
    for state in range(graph.start[-1]):
        total[state] = work.state_adjoint[state]
    if active > 0:
        _adjoints_of_edges(work, edges)
        for back in range(sweeps):
            sweep = sweeps - 1 - back
            for slot in range(work.first[edges]):
                work.next_adjoint[slot] = 0.0
            _undo_to_variables(
                graph, work, active, potentials, work.to_factor[sweep], work.to_variable[sweep], gradient
            )
            _undo_to_factors(graph, work, edges, work.to_factor[sweep], total)
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
        active, edges = _forward(graph, rows[row], tables, potentials, sweeps, work)
        loss += _loss_of_row(graph, rows[row], targets[row], weights[row], work)
        _backward(graph, rows[row], potentials, sweeps, work, active, edges, gradient)
    return loss
