"""Undoing the residual schedule, update by update: the adjoint of :mod:`loopwise.inference.messages.kernels.residual`.

In: the order of the updates and the message that each replaced, plain storage. Out: adjoints in place.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.factor_adjoints import message_back
from loopwise.inference.messages.kernels.plan import Block, Span, new_scratch, new_undo_scratch, told_by
from loopwise.inference.messages.kernels.variable_adjoints import (
    ADD_AND_CLEAR,
    damping_back,
    enter_seeds,
    exponents_back,
    variables_back,
)
from loopwise.inference.messages.kernels.variables import visit_variables
from loopwise.inference.messages.kernels.views import Message


@kernel
def undo_updates(run, back, edges, updates, example, adjoint, trained, static):
    """Undoes all updates of one example. ``run``: its potentials and final messages, without other examples', which go
    back to the first ones; ``adjoint.now`` is its messages to factors. ``back``: the same run to be undone.
    ``trained``: the damping or the exponents want an adjoint."""
    plan, m, block = run.plan, run.messages.m, U(example)
    sent, replaced, powered = updates.sent[example], updates.replaced[example], adjoint.exponents.shape[0] > 0
    everywhere, here = (
        Span(U(0), U(plan.state_start.shape[0] - 1)),
        Block(block, U(0), U(0), block * U(plan.unary_block), U(0)),
    )
    scratch, undo_scratch = new_scratch(plan, m, ()), new_undo_scratch(plan, m, ())
    width = replaced.shape[0] // max(sent.shape[0], 1)
    both, now = np.empty(2 * width, dtype=m.dtype), Message(m, U(0))
    enter_seeds(back, everywhere, block, back.seeds.last[example], now, adjoint, True, static)
    for update in range(updates.made[example] - 1, -1, -1):
        edge = sent[update]
        at, variable = edges.place[edge], U(edges.variable[edge])
        place, span = plan.edge_base[at], Span(variable, variable + U(1))
        if powered:
            exponents_back(back, span, now, adjoint, static)
        variables_back(back, span, None, block, adjoint, ADD_AND_CLEAR, undo_scratch, static)
        states = plan.state_start[variable + U(1)] - plan.state_start[variable]
        for state in range(states):
            both[state] = replaced[update * width + state]
            both[width + state] = m[place + U(state)]
            m[place + U(state)] = both[state]
        if trained:
            # Offsets wrap around on purpose: the two messages stand apart from the block that ``place`` counts in.
            before, after = Message(both, U(0) - place), Message(both, U(width) - place)
            damping_back(before, after, Span(place, place + U(states)), adjoint, back.kept, static.semiring)
        visit_variables(run, here, span, None, None, False, scratch, static)
        message_back(back, told_by(plan, at, block), adjoint, undo_scratch, static)
    if powered:
        exponents_back(back, everywhere, now, adjoint, static)
    variables_back(back, everywhere, None, block, adjoint, ADD_AND_CLEAR, undo_scratch, static)
