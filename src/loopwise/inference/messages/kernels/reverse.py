"""Undoing a run step by step, from the last to the first: the adjoint of ``schedules``.

In: messages to factors after every step (the tape), seeds from the loss. Out: adjoints of the messages that step
``low`` started from, of potentials, and of inference parameters where asked for.

Undoing step s needs the messages to factors after step s - 1 only. A tape whose steps all stand in the same place
(``n_step`` 0) gives the adjoint sweeps at a fixed point.
"""

from __future__ import annotations

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.barrier import meet
from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.inference.messages.kernels.factor_adjoints import factors_back, message_back
from loopwise.inference.messages.kernels.plan import new_undo_scratch
from loopwise.inference.messages.kernels.variable_adjoints import (
    damping_back,
    enter_seeds,
    exponents_back,
    variables_back,
)


@fused_callee
def undo_half_sweep(
    plan, order, pull, block, theta, n, n_base, tape, m_base, adjoint, kept, scratch, literal, general, sharing,
    lane_tag, semiring,
):  # fmt: skip
    """Undoes the visits to all variables in ``order``, last to first. ``n`` at ``n_base``: messages to factors before
    the half-sweep; the tape's messages to variables at ``m_base``: after it."""
    lanes, log = lanes_of(lane_tag), len(semiring) >= 2
    variables = U(plan.state_start.shape[0] - 1)
    now = adjoint.now
    for back in range(variables):
        index = variables - U(1) - back
        variable = U(order[index])
        states = U(plan.state_start[variable + U(1)] - plan.state_start[variable])
        if adjoint.exponents.shape[0] > 0:
            exponents_back(variable, variable + U(1), plan, tape.m, m_base, adjoint, log, lane_tag, lane_tag)
        variables_back(index, index + U(1), order, plan, block, adjoint, True, True, scratch, None, lane_tag, lane_tag)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + states * lanes):
                now[place] = n[n_base + place]
            if pull[at]:
                if tape.every > U(0):
                    damping_back(
                        tape.m, m_base - tape.m_step, m_base, here, here + states * lanes, adjoint, kept, log,
                    )  # fmt: skip
                message_back(
                    plan, U(plan.edge_group[at]), U(plan.edge_member[at]), U(plan.edge_position[at]), block, theta,
                    adjoint, kept, scratch, literal, general, sharing, lane_tag, semiring,
                )  # fmt: skip


@fused_kernel
def undo_steps(
    plan, flooding, order, theta, n, n_base, tape, m_base, seeds, adjoint, block, examples, high, low, part, parts,
    barrier, kept, literal, general, sharing, uniform, lane_tag, variable_tag, semiring,
):  # fmt: skip
    """Undoes steps ``high`` to ``low`` + 1 of one block; if ``low`` is 0, also the messages to factors at the start.
    ``flooding`` and ``order`` as in ``run_blocks``.

    ``adjoint.m`` and ``adjoint.n`` hold what is known already of the adjoints after step ``high``. The tape begins with
    step ``low``: messages to factors at ``n_base``, messages to variables at ``m_base``. Where factors stand in the
    lanes (``variable_tag`` () then), ``parts`` threads call this together as in ``flood_graph``.
    """
    lanes, log = lanes_of(lane_tag), len(semiring) >= 2
    variables, size = plan.state_start.shape[0] - 1, U(plan.slots) * lanes
    first, last = U(variables * part // parts), U(variables * (part + 1) // parts)
    begin, end = size * U(part) // U(parts), size * U(part + 1) // U(parts)
    scratch, variable_scratch = new_undo_scratch(plan, adjoint.m, lane_tag), new_undo_scratch(plan, adjoint.m, lane_tag)
    now, trained = adjoint.now, adjoint.exponents.shape[0] > 0
    step = high
    while True:
        m_now = m_base + U(step - low) * tape.m_step
        sweep = step if order is None else step // 2
        # Undoing undamped factors leaves nothing to add to; nor does it zero what it leaves.
        adding = kept > 0 or order is not None or step == high
        if order is None or step % 2 == 0:
            adding = enter_seeds(
                plan, seeds, block, sweep, first, last, examples, tape.m, m_now, adjoint, adding, log, lane_tag,
                variable_tag,
            )  # fmt: skip
        if order is None or step == 0:
            if trained:
                exponents_back(first, last, plan, tape.m, m_now, adjoint, log, lane_tag, variable_tag)
            if flooding is not None:
                variables_back(
                    first, last, None, plan, block, adjoint, adding, False, variable_scratch, uniform, lane_tag,
                    variable_tag,
                )  # fmt: skip
            if order is not None:  # in whatever order
                variables_back(
                    first, last, order.way[0], plan, block, adjoint, adding, False, scratch, None, lane_tag, lane_tag,
                )  # fmt: skip
            meet(barrier, parts)
        if step == low:
            break
        n_before = n_base + U(step - 1 - low) * tape.n_step
        if flooding is not None:
            if tape.every > U(0):
                damping_back(tape.m, m_now - tape.m_step, m_now, begin, end, adjoint, kept, log)
                meet(barrier, parts)
            factors_back(
                plan, block, U(part), U(parts), theta, n, n_before, adjoint, kept, scratch, literal, general, sharing,
                lane_tag, semiring,
            )  # fmt: skip
            meet(barrier, parts)
        if order is not None:
            n_after = n_before + tape.n_step
            for place in range(size):
                now[place] = n[n_after + place]
            turn = 1 - step % 2
            undo_half_sweep(
                plan, order.way[turn], order.pull[turn], block, theta, n, n_before, tape, m_now, adjoint, kept, scratch,
                literal, general, sharing, lane_tag, semiring,
            )  # fmt: skip
        step -= 1
        if step == low and low > 0:
            if order is None and kept == 0:
                for place in range(begin, end):
                    adjoint.m[place] = 0
            break
