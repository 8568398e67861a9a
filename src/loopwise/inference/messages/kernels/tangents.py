"""A run pushed forward and undone with tangents: forward over reverse, for Hessian-vector products.

In: the tape of a run, a direction. Out: tangents of its results; tangents of its adjoints. The same steps as in
:mod:`loopwise.inference.messages.kernels.schedules` and :mod:`loopwise.inference.messages.kernels.reverse`, linearised.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.barrier import meet
from loopwise.compiled.decorators import fused_callee, fused_inlined, fused_kernel
from loopwise.inference.messages.kernels.factor_tangents import (
    Factor,
    Moving,
    factors_back_hvp,
    factors_push,
    table_back_hvp,
    table_push,
)
from loopwise.inference.messages.kernels.plan import new_undo_scratch
from loopwise.inference.messages.kernels.variable_adjoints import enter_seeds, variables_back
from loopwise.inference.messages.kernels.views import Message


@fused_callee
def variables_push(run, span, order, share, tangent, dot_base, scratch, static):
    """Tangents of visits to variables: B. = u. + sum_e w_e M_e., N_e. = B. - M_e. Variables
    ``span[0]`` to ``span[1]`` of ``order`` (None: as numbered)."""
    plan = run.plan
    state_start, edge_start, edge_base, exponents = plan.state_start, plan.edge_start, plan.edge_base, plan.exponents
    m_dot, n_dot, unary_dot, total = tangent.m, tangent.n, tangent.unary, scratch[2]
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    step = stride if len(static.variable_lanes) < len(static.lanes) else U(1)
    u_base = share.block * U(plan.unary_block)
    for index in range(span[0], span[1]):
        variable = index if order is None else U(order[index])
        first_state = U(state_start[variable])
        size = (U(state_start[variable + U(1)]) - first_state) * lanes
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        for place in range(size):
            total[place] = unary_dot[u_base + first_state * lanes + place]
        for at in range(first, last):
            here, weight = edge_base[at], exponents[at]
            for place in range(size):
                total[place] += weight * m_dot[here + place * step]
        for at in range(first, last):
            here = edge_base[at]
            for place in range(size):
                n_dot[dot_base + here + place * step] = total[place] - m_dot[here + place * step]


@fused_callee
def leave_tangents(run, span, share, tangent, dot_base, sweep, static):
    """Copies the tangents of beliefs and messages after ``sweep`` to the results, for the examples that stopped there;
    those of beliefs for every sweep if there is room for a trace."""
    plan, block, examples, last_sweep = run.plan, share.block, run.examples, run.seeds.last
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    states, slots = U(plan.state_start[-1]), U(plan.slots) * stride
    traced = tangent.trace.shape[0] > 0
    ending = False
    for lane in range(lanes):
        example = block * lanes + lane
        ending = ending or (example < U(examples) and last_sweep[example] == sweep)
    if not (traced or ending):
        return
    sweeps = U(tangent.trace.shape[0]) // max(U(1), U(tangent.last_unary.shape[0]))
    u_base = block * U(plan.unary_block)
    for variable in range(span[0], span[1]):
        first, last = U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])
        first_state = U(plan.state_start[variable])
        for state in range(U(plan.state_start[variable + U(1)]) - first_state):
            for lane in range(lanes):
                example = block * lanes + lane
                place, row = state * stride + lane, (first_state + state) * lanes + lane
                stops = example < U(examples) and last_sweep[example] == sweep
                total = tangent.unary[u_base + row]
                for at in range(first, last):
                    here = plan.edge_base[at] + place
                    total += plan.exponents[at] * tangent.m[here]
                    if stops:
                        tangent.last_m[block * slots + here] = tangent.m[here]
                        tangent.last_n[block * slots + here] = tangent.n[dot_base + here]
                if stops:
                    tangent.last_unary[block * states * lanes + row] = total
                if traced:
                    tangent.trace[(block * sweeps + U(sweep)) * states * lanes + row] = total


@fused_callee
def push_half_sweep(run, order, pull, share, moving, tangent, scratch, static):
    """Tangents of the visits to all variables in ``order``. ``moving``: messages to factors, and their tangents, after
    the half-sweep; ``tangent.now``: before it, and after it in the end."""
    plan, lanes, now = run.plan, lanes_of(static.lanes), tangent.now
    n, n_base, dot_base = moving.n.data, moving.n.start, moving.dot.start
    met = Moving(Message(now, U(0)), moving.dot)
    for index in range(U(plan.state_start.shape[0] - 1)):
        variable = U(order[index])
        size = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            if pull[at]:
                table_push(run, told_by(plan, at, share.block), met, tangent, scratch, static)
        variables_push(run, (U(index), U(index) + U(1)), order, share, tangent, dot_base, scratch, static)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + size):
                now[place] = n[n_base + place]


@fused_callee
def told_by(plan, at, block):
    """The factor of an edge, with that edge alone."""
    position = U(plan.edge_position[at])
    return Factor(U(plan.edge_group[at]), block, U(plan.edge_member[at]), position, position + U(1))


@fused_inlined
def of_share(variables, share):
    """The variables of a thread."""
    return U(variables) * share.part // share.parts, U(variables) * (share.part + U(1)) // share.parts


@fused_kernel
def push_steps(run, flooding, order, segment, tangent, share, static):
    """Tangents of steps ``low`` + 1 to ``high`` of one block; ``tangent.m`` holds those after step ``low``. Arguments
    as in :func:`hvp_steps`."""
    plan, low, parts, barrier = run.plan, segment.low, np.int64(share.parts), share.barrier
    size = U(plan.slots) * lanes_of(static.lanes)
    span = of_share(plan.state_start.shape[0] - 1, share)
    scratch = new_undo_scratch(plan, tangent.m, static.lanes)
    n, n_base, n_step, now, n_dot = segment.n, U(segment.n_base), segment.tape.n_step, tangent.now, tangent.n
    if flooding is not None:
        variables_push(run, span, None, share, tangent, U(0), scratch, static)
    if order is not None:  # in whatever order
        variables_push(run, span, order.way[0], share, tangent, U(0), scratch, static)
    meet(barrier, parts)
    if low == 0:
        leave_tangents(run, span, share, tangent, U(0), 0, static)
        meet(barrier, parts)  # before another thread moves on to the next messages
    for step in range(low + 1, segment.high + 1):
        before, after = U(step - 1 - low), U(step - low)
        if flooding is not None:
            moving = Moving(Message(n, n_base + before * n_step), Message(n_dot, before * size))
            factors_push(run, share, moving, tangent, scratch, static.general, static.sharing, static)
            meet(barrier, parts)
            variables_push(run, span, None, share, tangent, after * size, scratch, static)
            meet(barrier, parts)
        if order is not None:
            for place in range(size):
                now[place] = n[n_base + before * n_step + place]
                n_dot[after * size + place] = n_dot[before * size + place]
            way, moving = 1 - step % 2, Moving(Message(n, n_base + after * n_step), Message(n_dot, after * size))
            push_half_sweep(run, order.way[way], order.pull[way], share, moving, tangent, scratch, static)
        if order is None or step % 2 == 0:
            sweep = step if order is None else step // 2
            leave_tangents(run, span, share, tangent, after * size, sweep, static)
            meet(barrier, parts)


@fused_callee
def visits_back(run, span, order, share, both, clearing, scratch, static):
    """Undoes visits to variables, with tangents: a visit is linear in the logarithms."""
    for adjoint in (both.adjoint, both.dotted):
        variables_back(
            span[0], span[1], order, run.plan, share.block, adjoint, True, clearing, scratch, None, static.lanes,
            static.variable_lanes,
        )  # fmt: skip


@fused_callee
def hvp_half_sweep(run, order, pull, share, moving, tangent, both, scratch, static):
    """``undo_half_sweep`` with tangents. ``both.adjoint.now`` and ``both.dotted.now``: messages to factors, and their
    tangents, as the visit being undone found them; ``moving``: before the half-sweep."""
    plan, lanes = run.plan, lanes_of(static.lanes)
    variables = U(plan.state_start.shape[0] - 1)
    now, now_dot = both.adjoint.now, both.dotted.now
    n, n_base, n_dot, dot_base = moving.n.data, moving.n.start, moving.dot.data, moving.dot.start
    met = Moving(Message(now, U(0)), Message(now_dot, U(0)))
    for back in range(variables):
        index = variables - U(1) - back
        variable = U(order[index])
        size = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes
        visits_back(run, (index, index + U(1)), order, share, both, True, scratch, static)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + size):
                now[place] = n[n_base + place]
                now_dot[place] = n_dot[dot_base + place]
            if pull[at]:
                table_back_hvp(run, told_by(plan, at, share.block), met, tangent, both, scratch, static)


@fused_kernel
def hvp_steps(run, flooding, order, segment, tangent, both, share, static):
    """``undo_steps`` with tangents: ``both.dotted`` collects those of all adjoints; ``both.adjoint`` goes along without
    sums. ``flooding`` and ``order`` as in ``run_blocks``."""
    plan, low, parts, barrier = run.plan, segment.low, np.int64(share.parts), share.barrier
    size = U(plan.slots) * lanes_of(static.lanes)
    span = of_share(plan.state_start.shape[0] - 1, share)
    scratch = new_undo_scratch(plan, tangent.m, static.lanes)
    n, n_base, n_step, n_dot = segment.n, U(segment.n_base), segment.tape.n_step, tangent.n
    now, now_dot = both.adjoint.now, both.dotted.now
    step = segment.high
    while True:
        sweep = step if order is None else step // 2
        if order is None or step % 2 == 0:
            enter_seeds(
                plan, run.seeds, share.block, sweep, span[0], span[1], run.examples, run.seeds.unary, U(0),
                both.adjoint, True, len(static.semiring) >= 2, static.lanes, static.variable_lanes,
            )  # fmt: skip
        if flooding is not None:
            visits_back(run, span, None, share, both, False, scratch, static)
            meet(barrier, parts)
        if order is not None and step == 0:  # in whatever order
            visits_back(run, span, order.way[0], share, both, False, scratch, static)
        if step == low:
            break
        before = U(step - 1 - low)
        moving = Moving(Message(n, n_base + before * n_step), Message(n_dot, before * size))
        if flooding is not None:
            factors_back_hvp(run, share, moving, tangent, both, scratch, static.general, static.sharing, static)
            meet(barrier, parts)
        if order is not None:
            for place in range(size):
                now[place] = n[n_base + (before + U(1)) * n_step + place]
                now_dot[place] = n_dot[(before + U(1)) * size + place]
            way = 1 - step % 2
            hvp_half_sweep(run, order.way[way], order.pull[way], share, moving, tangent, both, scratch, static)
        step -= 1
        if step == low and low > 0:
            break
