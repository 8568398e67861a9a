"""Sweeps in which only chosen messages are sent, many examples side by side, in the log domain.

In: log messages ``[slots, examples]``, sums of all log messages to each state ``[states, examples]``, tables of
probabilities ``[cells, examples or 1]``. Out: the same, in place. Below the stages. What is not sent costs nothing:
work and memory that is read grow with the messages that are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.compiled.elementary import exp_all, log_all

LANES = 64  # examples that are worked on together


class Chosen(NamedTuple):
    """Which edges send in which sweep, and where their factors stand; all but ``order`` by edge or factor."""

    start: NDArray[np.int64]  # [sweeps + 1], into order
    order: NDArray[np.int64]  # edges, sweep by sweep, those of a factor one after another
    slot: NDArray[np.int64]  # [edges + 1]
    state: NDArray[np.int64]  # [edges]: the first state of its variable
    factor: NDArray[np.int64]  # [edges]
    edges: NDArray[np.int64]  # [factors + 1]: the first edge of each
    cell: NDArray[np.int64]  # [factors + 1]: the first cell of each


@fused_callee
def hear(plan, factor, low, lanes, m, sums, heard, top):
    """What the variables of a factor say to it, as probabilities of any scale: ``heard[slot of the factor, lane]``."""
    begin = plan.slot[plan.edges[factor]]
    for edge in range(plan.edges[factor], plan.edges[factor + 1]):
        first, size = plan.slot[edge], plan.slot[edge + 1] - plan.slot[edge]
        place = (first - begin) * lanes
        for lane in range(lanes):
            top[lane] = -np.inf
        for value in range(size):
            state, slot = plan.state[edge] + value, first + value
            for lane in range(lanes):
                said = sums[state, low + lane] - m[slot, low + lane]
                heard[place + value * lanes + lane] = said
                top[lane] = max(top[lane], said)
        for value in range(size):
            for lane in range(lanes):
                heard[place + value * lanes + lane] -= top[lane]
    exp_all(heard[: (plan.slot[plan.edges[factor + 1]] - begin) * lanes])


@fused_callee
def say(plan, edge, low, lanes, tables, heard, product, out):
    """The message of one edge from what its factor heard, as log probabilities: ``out[value, lane]``, flat."""
    factor = plan.factor[edge]
    begin, first_edge, last_edge = plan.slot[plan.edges[factor]], plan.edges[factor], plan.edges[factor + 1]
    size = plan.slot[edge + 1] - plan.slot[edge]
    wide = tables.shape[1] > 1
    out[: size * lanes] = 0.0
    for cell in range(plan.cell[factor], plan.cell[factor + 1]):
        for lane in range(lanes):
            product[lane] = tables[cell, low + lane] if wide else tables[cell, 0]
        left, mine = cell - plan.cell[factor], 0
        for other in range(last_edge - 1, first_edge - 1, -1):
            states = plan.slot[other + 1] - plan.slot[other]
            value = left % states
            left //= states
            if other == edge:
                mine = value
                continue
            place = (plan.slot[other] - begin + value) * lanes
            for lane in range(lanes):
                product[lane] *= heard[place + lane]
        for lane in range(lanes):
            out[mine * lanes + lane] += product[lane]
    product[:lanes] = 0.0
    for value in range(size):
        for lane in range(lanes):
            product[lane] += out[value * lanes + lane]
    for value in range(size):
        for lane in range(lanes):
            out[value * lanes + lane] /= product[lane]
    log_all(out[: size * lanes])


@fused_kernel
def send_chosen(plan, first, last, tables, m, sums, fresh, heard, product):
    """Sweeps ``first`` to ``last`` (from 0, the last one not included): the messages of a sweep are all made from those
    before it. ``fresh``: room for the messages of a sweep of ``LANES`` examples; ``heard``: for those to a factor."""
    for low in range(0, m.shape[1], LANES):
        lanes = min(LANES, m.shape[1] - low)
        for sweep in range(first, last):
            factor, place = -1, 0
            for number in range(plan.start[sweep], plan.start[sweep + 1]):
                edge = plan.order[number]
                if plan.factor[edge] != factor:
                    factor = plan.factor[edge]
                    hear(plan, factor, low, lanes, m, sums, heard, product)
                size = plan.slot[edge + 1] - plan.slot[edge]
                say(plan, edge, low, lanes, tables, heard, product, fresh[place : place + size * lanes])
                place += size * lanes
            place = 0
            for number in range(plan.start[sweep], plan.start[sweep + 1]):
                edge = plan.order[number]
                for value in range(plan.slot[edge + 1] - plan.slot[edge]):
                    slot, state = plan.slot[edge] + value, plan.state[edge] + value
                    for lane in range(lanes):
                        new = fresh[place + lane]
                        sums[state, low + lane] += new - m[slot, low + lane]
                        m[slot, low + lane] = new
                    place += lanes
