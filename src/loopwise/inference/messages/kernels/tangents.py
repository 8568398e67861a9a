"""A run pushed forward and undone with tangents: forward over reverse, for Hessian-vector products.

In: the tape of a run, a direction. Out: tangents of its results; tangents of its adjoints. The same steps as in
:mod:`loopwise.inference.messages.kernels.schedules` and :mod:`loopwise.inference.messages.kernels.reverse`, linearised.
"""

from __future__ import annotations

from numba.extending import overload

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import INLINED, fused_callee, fused_kernel
from loopwise.inference.messages.kernels.factor_tangents import (
    Moving,
    factors_back_hvp,
    factors_push,
    table_back_hvp,
    table_push,
)
from loopwise.inference.messages.kernels.plan import Flood, Span, new_undo_scratch, of_share, told_by, wait
from loopwise.inference.messages.kernels.reverse import is_flooding, tape_n
from loopwise.inference.messages.kernels.variable_adjoints import ADD, ADD_AND_CLEAR, enter_seeds, variables_back
from loopwise.inference.messages.kernels.views import Message, states_of


@fused_callee
def variables_push(run, span, order, share, tangent, dot_base, scratch, static):
    """Tangents of visits to variables: B. = u. + sum_e w_e M_e., N_e. = B. - M_e. For the
    variables ``span`` of ``order`` (None: as numbered)."""
    plan = run.plan
    state_start, edge_start, edge_base, exponents = plan.state_start, plan.edge_start, plan.edge_base, plan.exponents
    m_dot, n_dot, unary_dot, total = tangent.m, tangent.n, tangent.unary, scratch.total
    lanes, stride = lanes_of(static.variable_lanes), lanes_of(static.lanes)
    step = stride if len(static.variable_lanes) < len(static.lanes) else U(1)
    u_base = share.block * U(plan.unary_block)
    for index in range(span.first, span.last):
        variable = index if order is None else U(order[index])
        first_state = U(state_start[variable])
        size = states_of(plan, variable, static.uniform) * lanes
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
    for variable in range(span.first, span.last):
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
def push_half_sweep(run, schedule, segment, step, share, tangent, scratch, static):
    """Tangents of the visits to all variables in ``step``; ``tangent.now`` is made messages to factors as each visit
    finds them."""
    plan, turn, now, n_dot = run.plan, 1 - step % 2, tangent.now, tangent.n
    order, pull, size = schedule.way[turn], schedule.pull[turn], U(plan.slots) * lanes_of(static.lanes)
    before, after = tape_n(segment, step - 1), tape_n(segment, step)
    n, n_base, dot = segment.n, after.start, U(step - segment.low) * size
    for place in range(size):
        now[place] = n[before.start + place]
        n_dot[dot + place] = n_dot[dot - size + place]
    met = Moving(Message(now, U(0)), Message(n_dot, dot))
    for index in range(U(plan.state_start.shape[0] - 1)):
        variable = U(order[index])
        width = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes_of(static.lanes)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            if pull[at]:
                table_push(run, told_by(plan, at, share.block), met, tangent, scratch, static)
        variables_push(run, Span(index, index + U(1)), order, share, tangent, dot, scratch, static)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + width):
                now[place] = n[n_base + place]


@fused_callee
def push_flood(run, schedule, segment, step, share, tangent, scratch, static):
    """Tangents of a flooding step."""
    size, before = U(run.plan.slots) * lanes_of(static.lanes), tape_n(segment, step - 1)
    after, span = U(step - segment.low) * size, of_share(run.plan.state_start.shape[0] - 1, share)
    moving = Moving(before, Message(tangent.n, after - size))
    factors_push(run, share, moving, tangent, scratch, static.general, static.sharing, static)
    wait(share)
    variables_push(run, span, None, share, tangent, after, scratch, static)
    wait(share)


def push_step(run, schedule, segment, step, share, tangent, scratch, static):
    """Tangents of one step by its schedule."""


@overload(push_step, jit_options=INLINED)
def _push_step(run, schedule, segment, step, share, tangent, scratch, static):
    return (push_flood if schedule.instance_class is Flood else push_half_sweep).py_func


@fused_kernel
def push_steps(run, schedule, segment, tangent, share, static):
    """Tangents of the steps of one segment of a block's run, first to last; ``tangent.m`` holds those before them."""
    plan, low, size = run.plan, segment.low, U(run.plan.slots) * lanes_of(static.lanes)
    span, flooding = of_share(plan.state_start.shape[0] - 1, share), is_flooding(schedule)
    scratch = new_undo_scratch(plan, tangent.m, static.lanes)
    variables_push(run, span, None, share, tangent, U(0), scratch, static)  # in whatever order
    wait(share)
    if low == 0:
        leave_tangents(run, span, share, tangent, U(0), 0, static)
        wait(share)  # before another thread moves on to the next messages
    for step in range(low + 1, segment.high + 1):
        push_step(run, schedule, segment, step, share, tangent, scratch, static)
        if flooding or step % 2 == 0:
            sweep = step if flooding else step // 2
            leave_tangents(run, span, share, tangent, U(step - low) * size, sweep, static)
            wait(share)


@fused_callee
def visits_back(run, span, order, share, both, how, scratch, static):
    """Undoes visits to variables, with tangents: a visit is linear in the logarithms."""
    for adjoint in (both.adjoint, both.dotted):
        variables_back(run, span, order, share.block, adjoint, how, scratch, static)


@fused_callee
def hvp_half_sweep(run, schedule, segment, step, share, moved, scratch, static):
    """``undo_half_sweep`` with tangents. ``both.adjoint.now`` and ``both.dotted.now``: messages to factors, and their
    tangents, as the visit being undone found them."""
    tangent, both = moved
    plan, turn, size = run.plan, 1 - step % 2, U(run.plan.slots) * lanes_of(static.lanes)
    order, pull, variables = schedule.way[turn], schedule.pull[turn], U(plan.state_start.shape[0] - 1)
    before, after = tape_n(segment, step - 1), tape_n(segment, step)
    n, n_base, n_dot, dot_base = segment.n, before.start, tangent.n, U(step - 1 - segment.low) * size
    now, now_dot = both.adjoint.now, both.dotted.now
    for place in range(size):
        now[place] = n[after.start + place]
        now_dot[place] = n_dot[dot_base + size + place]
    met = Moving(Message(now, U(0)), Message(now_dot, U(0)))
    for back in range(variables):
        index = variables - U(1) - back
        variable = U(order[index])
        width = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes_of(static.lanes)
        visits_back(run, Span(index, index + U(1)), order, share, both, ADD_AND_CLEAR, scratch, static)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + width):
                now[place] = n[n_base + place]
                now_dot[place] = n_dot[dot_base + place]
            if pull[at]:
                table_back_hvp(run, told_by(plan, at, share.block), met, tangent, both, scratch, static)


@fused_callee
def hvp_flood(run, schedule, segment, step, share, moved, scratch, static):
    """Undoes a flooding step but for its visits to variables, with tangents."""
    tangent, both = moved
    dot = U(step - 1 - segment.low) * U(run.plan.slots) * lanes_of(static.lanes)
    moving = Moving(tape_n(segment, step - 1), Message(tangent.n, dot))
    factors_back_hvp(run, share, moving, tangent, both, scratch, static.general, static.sharing, static)
    wait(share)


def hvp_step(run, schedule, segment, step, share, moved, scratch, static):
    """``undo_step`` with tangents; ``moved``: tangents, and adjoints with theirs."""


@overload(hvp_step, jit_options=INLINED)
def _hvp_step(run, schedule, segment, step, share, moved, scratch, static):
    return (hvp_flood if schedule.instance_class is Flood else hvp_half_sweep).py_func


@fused_kernel
def hvp_steps(run, schedule, segment, tangent, both, share, static):
    """``undo_steps`` with tangents: ``both.dotted`` collects those of all adjoints; ``both.adjoint`` goes along without
    sums."""
    plan, low, flooding = run.plan, segment.low, is_flooding(schedule)
    span = of_share(plan.state_start.shape[0] - 1, share)
    scratch, unread = new_undo_scratch(plan, tangent.m, static.lanes), Message(run.seeds.unary, U(0))
    step = segment.high
    while True:
        if flooding or step % 2 == 0:
            sweep = step if flooding else step // 2
            enter_seeds(run, span, share.block, sweep, unread, both.adjoint, True, static)
        if flooding or step == 0:  # the first visit of all, in whatever order
            visits_back(run, span, None, share, both, ADD, scratch, static)
            wait(share)
        if step == low:
            break
        hvp_step(run, schedule, segment, step, share, (tangent, both), scratch, static)
        step -= 1
        if step == low and low > 0:
            break
