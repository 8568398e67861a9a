"""Sweeps in which only chosen messages are sent, many examples side by side, in the log domain.

In: log messages ``[blocks, slots, lanes]``, sums of all log messages to each state ``[blocks, states, lanes]``, tables
of probabilities ``[blocks, cells, lanes]`` or one for all ``[cells]``, all flat. Out: the first two, in place. Below
the stages. What is not sent costs nothing: work and memory that is read grow with the messages that are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.compiled.elementary import exp_all, log_all
from loopwise.compiled.lane_vectors import load, most, spread, store


class Chosen(NamedTuple):
    """Which edges send in which sweep, and where their factors stand; all but ``order`` by edge or factor."""

    states: int
    start: NDArray[np.uintp]  # [sweeps + 1], into order
    order: NDArray[np.uintp]  # edges, sweep by sweep, those of a factor one after another
    slot: NDArray[np.uintp]  # [edges + 1]
    state: NDArray[np.uintp]  # [edges]: the first state of its variable
    factor: NDArray[np.uintp]  # [edges]
    edges: NDArray[np.uintp]  # [factors + 1]: the first edge of each
    cell: NDArray[np.uintp]  # [factors + 1]: the first cell of each


class ChosenWorkspace(NamedTuple):
    """What one block of examples is worked on with."""

    fresh: Any  # the messages of a sweep, [slots, lanes]
    heard: Any  # those to a factor, [slots of a factor, lanes]


class LaneTable(NamedTuple):
    """The tables of a block: where they begin, and the lanes of each cell, 0 where all examples share it."""

    data: Any
    start: Any
    lanes: Any


@fused_callee
def cell_at(table, cell, like, tag):
    """One cell of all lanes."""
    if table.lanes == U(0):
        return spread(table.data[cell], like, tag)
    return load(table.data, table.start + cell * table.lanes, tag)


@fused_callee
def hear(plan, factor, m, m0, sums, sums0, heard, tag):
    """What the variables of a factor say to it, as probabilities of any scale: ``heard[slot of the factor, lane]``."""
    lanes, begin = lanes_of(tag), plan.slot[plan.edges[factor]]
    for edge in range(plan.edges[factor], plan.edges[factor + U(1)]):
        first, size = plan.slot[edge], plan.slot[edge + U(1)] - plan.slot[edge]
        place, top = (first - begin) * lanes, spread(-np.inf, heard, tag)
        for value in range(size):
            said = load(sums, sums0 + (plan.state[edge] + value) * lanes, tag)
            said = said - load(m, m0 + (first + value) * lanes, tag)
            store(heard, place + value * lanes, said)
            top = most(top, said)
        for value in range(size):
            store(heard, place + value * lanes, load(heard, place + value * lanes, tag) - top)
    exp_all(heard[: (plan.slot[plan.edges[factor + U(1)]] - begin) * lanes])


@fused_callee
def add_pair(plan, edge, table, heard, out, tag):
    """``out[value]`` for a factor of two variables: a row or a column of its table at a time."""
    lanes, factor = lanes_of(tag), plan.factor[edge]
    first = plan.edges[factor]
    other = first + first + U(1) - edge
    size, width = plan.slot[edge + U(1)] - plan.slot[edge], plan.slot[other + U(1)] - plan.slot[other]
    mine, theirs = (width, U(1)) if edge == first else (U(1), size)
    said = (plan.slot[other] - plan.slot[first]) * lanes
    for value in range(size):
        total = spread(0.0, out, tag)
        for state in range(width):
            cell = plan.cell[factor] + value * mine + state * theirs
            total = total + cell_at(table, cell, out, tag) * load(heard, said + state * lanes, tag)
        store(out, value * lanes, total)


@fused_callee
def add_cells(plan, edge, table, heard, out, tag):
    """``out[value]`` for a factor of any arity, cell by cell."""
    lanes, factor = lanes_of(tag), plan.factor[edge]
    first_edge, last_edge = plan.edges[factor], plan.edges[factor + U(1)]
    out[:] = 0.0
    for cell in range(plan.cell[factor], plan.cell[factor + U(1)]):
        product = cell_at(table, cell, out, tag)
        left, mine, other = cell - plan.cell[factor], U(0), last_edge
        while other > first_edge:
            other -= U(1)
            states = plan.slot[other + U(1)] - plan.slot[other]
            value = left % states
            left //= states
            if other == edge:
                mine = value
            else:
                product = product * load(heard, (plan.slot[other] - plan.slot[first_edge] + value) * lanes, tag)
        store(out, mine * lanes, load(out, mine * lanes, tag) + product)


@fused_callee
def say(plan, edge, table, heard, out, tag):
    """The message of one edge from what its factor heard, as log probabilities: ``out[value, lane]``, flat."""
    lanes, factor = lanes_of(tag), plan.factor[edge]
    if plan.edges[factor + U(1)] - plan.edges[factor] == U(2):
        add_pair(plan, edge, table, heard, out, tag)
    else:
        add_cells(plan, edge, table, heard, out, tag)
    size, total = plan.slot[edge + U(1)] - plan.slot[edge], spread(0.0, out, tag)
    for value in range(size):
        total = total + load(out, value * lanes, tag)
    for value in range(size):
        store(out, value * lanes, load(out, value * lanes, tag) / total)
    log_all(out)


@fused_kernel
def send_chosen(plan, first, last, tables, m, sums, workspace, tag):
    """Sweeps ``first`` to ``last`` (from 0, the last one not included): the messages of a sweep are all made from those
    before it. ``tag``: how many examples stand side by side."""
    lanes, slots, states = lanes_of(tag), plan.slot[-1], U(plan.states)
    cells = plan.cell[-1] * lanes
    wide = U(tables.shape[0]) != plan.cell[-1] or lanes == U(1)
    for block in range(U(sums.shape[0]) // (states * lanes)):
        m0, sums0 = block * slots * lanes, block * states * lanes
        table = LaneTable(tables, block * cells, lanes if wide else U(0))
        for sweep in range(first, last):
            factor, place = U(plan.factor.shape[0]), U(0)  # none
            for number in range(plan.start[sweep], plan.start[sweep + 1]):
                edge = plan.order[number]
                if plan.factor[edge] != factor:
                    factor = plan.factor[edge]
                    hear(plan, factor, m, m0, sums, sums0, workspace.heard, tag)
                size = (plan.slot[edge + U(1)] - plan.slot[edge]) * lanes
                say(plan, edge, table, workspace.heard, workspace.fresh[place : place + size], tag)
                place += size
            place = U(0)
            for number in range(plan.start[sweep], plan.start[sweep + 1]):
                edge = plan.order[number]
                for value in range(plan.slot[edge + U(1)] - plan.slot[edge]):
                    slot = m0 + (plan.slot[edge] + value) * lanes
                    state = sums0 + (plan.state[edge] + value) * lanes
                    new = load(workspace.fresh, place, tag)
                    store(sums, state, load(sums, state, tag) + (new - load(m, slot, tag)))
                    store(m, slot, new)
                    place += lanes


@fused_kernel
def beliefs_of(starts, sums, out, tag):
    """``out[state, lane]``: sums of log messages as probabilities, which add up to 1 over each variable; ``starts``
    ``[variables + 1]``: its first state."""
    lanes = lanes_of(tag)
    states = starts[-1] * lanes
    for block in range(U(sums.shape[0]) // states):
        begin = block * states
        for variable in range(U(starts.shape[0] - 1)):
            top = spread(-np.inf, sums, tag)
            for state in range(starts[variable], starts[variable + U(1)]):
                top = most(top, load(sums, begin + state * lanes, tag))
            for state in range(starts[variable], starts[variable + U(1)]):
                store(out, begin + state * lanes, load(sums, begin + state * lanes, tag) - top)
        exp_all(out[begin : begin + states])
        for variable in range(U(starts.shape[0] - 1)):
            total = spread(0.0, sums, tag)
            for state in range(starts[variable], starts[variable + U(1)]):
                total = total + load(out, begin + state * lanes, tag)
            for state in range(starts[variable], starts[variable + U(1)]):
                store(out, begin + state * lanes, load(out, begin + state * lanes, tag) / total)
