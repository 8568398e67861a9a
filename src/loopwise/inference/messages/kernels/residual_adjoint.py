"""Undoing the residual schedule, update by update: the adjoint of :mod:`loopwise.inference.messages.kernels.residual`.

In: the order of the updates and the message that each replaced, plain storage. Out: adjoints in place.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.factor_adjoints import message_back
from loopwise.inference.messages.kernels.plan import new_scratch, new_undo_scratch
from loopwise.inference.messages.kernels.variable_adjoints import (
    damping_back,
    enter_seeds,
    exponents_back,
    variables_back,
)
from loopwise.inference.messages.kernels.variables import visit_variables


@kernel
def undo_updates(
    plan, edge_at, edge_variable, numbers, flow, example, made, sent, replaced, seeds, adjoint, examples, kept, trained,
    literal, general, power, semiring,
):  # fmt: skip
    """Undoes all updates of one example. ``flow``: its final messages, which go back to the first ones; ``adjoint.now``
    is ``flow.n``. ``trained``: the damping or the exponents want an adjoint."""
    log = len(semiring) >= 2
    variables, block = U(plan.state_start.shape[0] - 1), U(example)
    scratch, undo_scratch = new_scratch(plan, flow.m, ()), new_undo_scratch(plan, flow.m, ())
    width = replaced.shape[0] // max(sent.shape[0], 1)
    both = np.empty(2 * width, dtype=flow.m.dtype)
    enter_seeds(
        plan, seeds, block, seeds.last[example], U(0), variables, examples, flow.m, U(0), adjoint, True, log, (), (),
    )  # fmt: skip
    for back in range(made):
        update = made - 1 - back
        edge = sent[update]
        at, variable = edge_at[edge], U(edge_variable[edge])
        here = plan.edge_base[at]
        if adjoint.exponents.shape[0] > 0:
            exponents_back(variable, variable + U(1), plan, flow.m, U(0), adjoint, log, (), ())
        variables_back(variable, variable + U(1), None, plan, block, adjoint, True, True, undo_scratch, None, (), ())
        states = plan.state_start[variable + U(1)] - plan.state_start[variable]
        for state in range(states):
            both[state] = replaced[update * width + state]
            both[width + state] = flow.m[here + U(state)]
            flow.m[here + U(state)] = both[state]
        if trained:
            # Offsets wrap around on purpose: the two messages stand apart from the block that ``here`` counts in.
            damping_back(both, U(0) - here, U(width) - here, here, here + U(states), adjoint, kept, log)
        visit_variables(
            variable, variable + U(1), None, None, plan, block, numbers.theta, numbers.unary,
            block * U(plan.unary_block), flow, U(0), U(0), U(0), False, kept, scratch, (), None, None, None, None,
            (), (), power, semiring,
        )  # fmt: skip
        message_back(
            plan, U(plan.edge_group[at]), U(plan.edge_member[at]), U(plan.edge_position[at]), block, numbers.theta,
            adjoint, kept, undo_scratch, literal, general, None, (), semiring,
        )  # fmt: skip
    if adjoint.exponents.shape[0] > 0:
        exponents_back(U(0), variables, plan, flow.m, U(0), adjoint, log, (), ())
    variables_back(U(0), variables, None, plan, block, adjoint, True, True, undo_scratch, None, (), ())
