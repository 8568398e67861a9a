"""A run pushed forward and undone with tangents: forward over reverse, for Hessian-vector products.

In: the tape of a run, a direction. Out: tangents of its results; tangents of its adjoints. The same steps as in
:mod:`loopwise.kernels.schedules` and :mod:`loopwise.kernels.reverse`, linearised.
"""

from __future__ import annotations

from loopwise.kernels.arithmetic import U, callee, kernel, lanes_of
from loopwise.kernels.barrier import meet
from loopwise.kernels.factor_tangents import factors_back_hvp, factors_push, table_back_hvp, table_push
from loopwise.kernels.plan import Tangent, new_undo_scratch
from loopwise.kernels.variable_adjoints import enter_seeds, variables_back


@callee
def variables_push(begin, end, order, plan, block, tangent, dot_base, scratch, stride_tag, lane_tag):
    """Tangents of visits to variables: B. = u. + sum_e w_e M_e., N_e. = B. - M_e."""
    state_start, edge_start, edge_base, exponents = plan.state_start, plan.edge_start, plan.edge_base, plan.exponents
    m_dot, n_dot, unary_dot, total = tangent.m, tangent.n, tangent.unary, scratch[2]
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
    step = stride if len(lane_tag) < len(stride_tag) else U(1)
    u_base = block * U(plan.unary_block)
    for index in range(begin, end):
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


@callee
def leave_tangents(plan, tangent, dot_base, block, sweep, begin, end, examples, last_sweep, stride_tag, lane_tag):
    """Copies the tangents of beliefs and messages after ``sweep`` to the results, for the examples that stopped there;
    those of beliefs for every sweep if there is room for a trace."""
    lanes, stride = lanes_of(lane_tag), lanes_of(stride_tag)
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
    for variable in range(begin, end):
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


@callee
def push_half_sweep(
    plan, order, pull, block, theta, n, n_base, tangent, dot_base, kept, scratch, lane_tag, semiring,
):  # fmt: skip
    """Tangents of the visits to all variables in ``order``. ``n`` at ``n_base``: messages to factors after the
    half-sweep; ``tangent.now``: before it, and after it in the end."""
    lanes, now = lanes_of(lane_tag), tangent.now
    for index in range(U(plan.state_start.shape[0] - 1)):
        variable = U(order[index])
        size = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            if pull[at]:
                position = U(plan.edge_position[at])
                table_push(
                    plan, U(plan.edge_group[at]), U(plan.edge_member[at]), position, position + U(1), block, theta, now,
                    U(0), tangent, dot_base, kept, scratch, lane_tag, semiring,
                )  # fmt: skip
        variables_push(U(index), U(index) + U(1), order, plan, block, tangent, dot_base, scratch, lane_tag, lane_tag)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + size):
                now[place] = n[n_base + place]


@kernel
def push_steps(
    plan, flooding, order, theta, n, n_base, n_step, tangent, block, examples, last_sweep, high, low, part, parts,
    barrier, kept, literal, general, sharing, lane_tag, variable_tag, semiring,
):  # fmt: skip
    """Tangents of steps ``low`` + 1 to ``high`` of one block; ``tangent.m`` holds those after step ``low``. Arguments
    as in ``undo_steps``."""
    lanes = lanes_of(lane_tag)
    variables, size = plan.state_start.shape[0] - 1, U(plan.slots) * lanes
    first, last = U(variables * part // parts), U(variables * (part + 1) // parts)
    scratch = new_undo_scratch(plan, tangent.m, lane_tag)
    now, n_dot = tangent.now, tangent.n
    if flooding is not None:
        variables_push(first, last, None, plan, block, tangent, U(0), scratch, lane_tag, variable_tag)
    if order is not None:  # in whatever order
        variables_push(first, last, order.way[0], plan, block, tangent, U(0), scratch, lane_tag, lane_tag)
    meet(barrier, parts)
    if low == 0:
        leave_tangents(
            plan, tangent, U(0), block, 0, first, last, examples, last_sweep, lane_tag, variable_tag,
        )  # fmt: skip
        meet(barrier, parts)  # before another thread moves on to the next messages
    for step in range(low + 1, high + 1):
        before, after = U(step - 1 - low), U(step - low)
        if flooding is not None:
            factors_push(
                plan, block, U(part), U(parts), theta, n, n_base + before * n_step, tangent, before * size, kept,
                scratch, literal, general, sharing, lane_tag, semiring,
            )  # fmt: skip
            meet(barrier, parts)
            variables_push(first, last, None, plan, block, tangent, after * size, scratch, lane_tag, variable_tag)
            meet(barrier, parts)
        if order is not None:
            for place in range(size):
                now[place] = n[n_base + before * n_step + place]
                n_dot[after * size + place] = n_dot[before * size + place]
            turn = 1 - step % 2
            push_half_sweep(
                plan, order.way[turn], order.pull[turn], block, theta, n, n_base + after * n_step, tangent,
                after * size, kept, scratch, lane_tag, semiring,
            )  # fmt: skip
        if order is None or step % 2 == 0:
            sweep = step if order is None else step // 2
            leave_tangents(
                plan, tangent, after * size, block, sweep, first, last, examples, last_sweep, lane_tag, variable_tag,
            )  # fmt: skip
            meet(barrier, parts)


@callee
def hvp_half_sweep(
    plan, order, pull, block, theta, n, n_base, tangent, dot_base, adjoint, dotted, kept, scratch, lane_tag, semiring,
):  # fmt: skip
    """``undo_half_sweep`` with tangents. ``adjoint.now`` and ``dotted.now``: messages to factors, and their tangents,
    as the visit being undone found them; at ``n_base`` and ``dot_base``: before the half-sweep."""
    lanes = lanes_of(lane_tag)
    variables = U(plan.state_start.shape[0] - 1)
    now, now_dot = adjoint.now, dotted.now
    moving = Tangent(
        tangent.m, now_dot, tangent.now, tangent.theta, tangent.unary, tangent.last_unary, tangent.last_m,
        tangent.last_n, tangent.trace,
    )  # fmt: skip
    for back in range(variables):
        index = variables - U(1) - back
        variable = U(order[index])
        size = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes
        variables_back(index, index + U(1), order, plan, block, adjoint, True, True, scratch, None, lane_tag, lane_tag)
        variables_back(index, index + U(1), order, plan, block, dotted, True, True, scratch, None, lane_tag, lane_tag)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + size):
                now[place] = n[n_base + place]
                now_dot[place] = tangent.n[dot_base + place]
            if pull[at]:
                position = U(plan.edge_position[at])
                table_back_hvp(
                    plan, U(plan.edge_group[at]), U(plan.edge_member[at]), position, position + U(1), block, theta, now,
                    U(0), moving, U(0), adjoint, dotted, kept, scratch, lane_tag, semiring,
                )  # fmt: skip


@kernel
def hvp_steps(
    plan, flooding, order, theta, n, n_base, n_step, seeds, tangent, adjoint, dotted, block, examples, high, low, part,
    parts, barrier, kept, literal, general, sharing, lane_tag, variable_tag, semiring,
):  # fmt: skip
    """``undo_steps`` with tangents: ``dotted`` collects those of all adjoints; ``adjoint`` goes along without sums."""
    lanes = lanes_of(lane_tag)
    variables, size = plan.state_start.shape[0] - 1, U(plan.slots) * lanes
    first, last = U(variables * part // parts), U(variables * (part + 1) // parts)
    scratch = new_undo_scratch(plan, adjoint.m, lane_tag)
    now, now_dot, n_dot = adjoint.now, dotted.now, tangent.n
    step = high
    while True:
        sweep = step if order is None else step // 2
        if order is None or step % 2 == 0:
            enter_seeds(
                plan, seeds, block, sweep, first, last, examples, seeds.unary, U(0), adjoint, True, len(semiring) >= 2,
                lane_tag, variable_tag,
            )  # fmt: skip
        if flooding is not None:
            variables_back(first, last, None, plan, block, adjoint, True, False, scratch, None, lane_tag, variable_tag)
            variables_back(first, last, None, plan, block, dotted, True, False, scratch, None, lane_tag, variable_tag)
            meet(barrier, parts)
        if order is not None and step == 0:  # in whatever order
            variables_back(
                first, last, order.way[0], plan, block, adjoint, True, False, scratch, None, lane_tag, lane_tag
            )
            variables_back(
                first, last, order.way[0], plan, block, dotted, True, False, scratch, None, lane_tag, lane_tag
            )
        if step == low:
            break
        n_before, dot_before = n_base + U(step - 1 - low) * n_step, U(step - 1 - low) * size
        if flooding is not None:
            factors_back_hvp(
                plan, block, U(part), U(parts), theta, n, n_before, tangent, dot_before, adjoint, dotted, kept, scratch,
                literal, general, sharing, lane_tag, semiring,
            )  # fmt: skip
            meet(barrier, parts)
        if order is not None:
            for place in range(size):
                now[place] = n[n_before + n_step + place]
                now_dot[place] = n_dot[dot_before + size + place]
            turn = 1 - step % 2
            hvp_half_sweep(
                plan, order.way[turn], order.pull[turn], block, theta, n, n_before, tangent, dot_before, adjoint,
                dotted, kept, scratch, lane_tag, semiring,
            )  # fmt: skip
        step -= 1
        if step == low and low > 0:
            break
