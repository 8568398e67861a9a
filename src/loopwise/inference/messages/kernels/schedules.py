"""The flooding and the sequential schedule, from initial to final messages.

In: potentials and initial messages. Out: final messages, variable beliefs, and per example the sweeps, the last
change and the smallest normaliser (below a floor: the run lost digits to underflow).

A flooding sweep renews all messages to variables, then all messages to factors; a sequential sweep visits the
variables in order and back. Either way messages to factors are up to date with messages to variables at the end.
Kernels are kept shallow: the compiler optimises a callee again in each of its callers.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.arrays import fill, largest
from loopwise.compiled.barrier import meet
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.convergence import (
    change_is_known,
    copy_messages,
    excess_change,
    expected_change,
    is_near,
    is_watched,
    message_change,
    sweep_residual,
)
from loopwise.inference.messages.kernels.factors import factor_step
from loopwise.inference.messages.kernels.pair_visits import visit_pairs
from loopwise.inference.messages.kernels.plan import new_scratch
from loopwise.inference.messages.kernels.variables import visit_variables


@callee
def keep_messages(tape, block, step, m, base, first, last):
    """Copies the messages ``first`` to ``last`` of a block to the tape, if it wants this step."""
    if tape.every > U(0) and step % tape.every == U(0):
        kept, target = block * tape.m_block + step // tape.every * tape.m_step, tape.m
        for place in range(first, last):
            target[kept + place] = m[base + place]


@kernel
def flood_graph(
    plan, block, origin, numbers, flow, tape, before, part, parts, barrier, change, first_sweep, rule, damping, literal,
    general, uniform, laned, power, semiring,
):  # fmt: skip
    """One example (``block``), its factors in lanes. ``parts`` threads call this together, each with its own ``part``;
    they share ``barrier``, ``before`` (room for its messages) and ``change`` ``[2, parts]``, and meet after every
    half-sweep. The arrays of ``flow`` and ``tape`` begin with block ``origin``. ``first_sweep``: 0, or 1 to go on from
    an earlier run, whose messages to factors and beliefs are in ``flow``.

    Returns the sweeps made, the residual, the last change of a belief and the smallest normaliser.
    """
    lanes = lanes_of(laned)
    size, place = U(plan.slots) * lanes, block - origin
    base, n_base, belief_base = place * size, place * tape.n_block, place * U(plan.state_start[-1])
    mine, rest = size * U(part) // U(parts), size * U(part + 1) // U(parts)
    row, rows = size // lanes * U(part) // U(parts), size // lanes * U(part + 1) // U(parts)
    variables = plan.state_start.shape[0] - 1
    first, last = U(variables * part // parts), U(variables * (part + 1) // parts)
    factor_scratch, variable_scratch = new_scratch(plan, flow.m, laned), new_scratch(plan, flow.m, ())
    sweeps, residual, moved, previous, expected, judged = 0, np.inf, np.inf, np.inf, np.inf, False
    for sweep in range(first_sweep, rule.iterations + 1):
        judged = is_near(expected, rule)
        if judged:
            copy_messages(flow.m, base + mine, rest - mine, before, mine)
            meet(barrier, parts)
        if sweep > 0:
            factor_step(
                plan, block, U(part), U(parts), numbers.theta, flow, base, n_base + U(sweep - 1) * tape.n_step, damping,
                factor_scratch, literal, general, None, laned, semiring,
            )  # fmt: skip
            meet(barrier, parts)
        keep_messages(tape, place, U(sweep), flow.m, base, mine, rest)
        variable_scratch.change[0] = 0
        visit_variables(
            first, last, None, None, plan, block, numbers.theta, numbers.unary, block * U(plan.unary_block), flow, base,
            n_base + U(sweep) * tape.n_step, belief_base, is_watched(sweep, rule), damping, variable_scratch, (), None,
            None, None, uniform, laned, (), power, semiring,
        )  # fmt: skip
        change[0, part] = variable_scratch.change[0]
        if judged:
            excess_change(
                flow.m, base + row * lanes, rows - row, before, row * lanes, rule, factor_scratch.change, laned,
                semiring,
            )  # fmt: skip
            change[1, part] = largest(factor_scratch.change)
        meet(barrier, parts)
        sweeps, moved = sweep, largest(change[0])
        residual = sweep_residual(moved, previous, judged, largest(change[1]), rule)
        if change_is_known(sweep, first_sweep, rule):
            expected, previous = expected_change(moved, previous), moved
        if sweep > 0 and rule.tolerance > 0 and residual < rule.tolerance:
            break
    if residual == np.inf and judged:  # the same in every thread: messages of the last sweep have not come to rest
        message_change(flow.m, base, size // lanes, before, U(0), factor_scratch.change, laned, semiring)
        residual = max(moved, largest(factor_scratch.change) * rule.reach)
    lowest = variable_scratch.lowest[0]
    for lane in range(factor_scratch.lowest.shape[0]):
        lowest = min(lowest, factor_scratch.lowest[lane])
    return sweeps, residual, moved, lowest


@callee
def retire(flow, done, base, n_base, belief_base, slots, states, lane, lanes):
    """Copies one finished example out of its block, so that its neighbours can go on without changing it."""
    for slot in range(slots):
        place = slot * lanes + lane
        done.m[base + place] = flow.m[base + place]
        done.n[base + place] = flow.n[n_base + place]
    for state in range(states):
        place = belief_base + state * lanes + lane
        done.beliefs[place] = flow.beliefs[place]


@callee
def next_step(n, n_base, n_step):
    """Where the messages to factors of the next step stand; they begin as those of this one."""
    for place in range(n_step):
        n[n_base + n_step + place] = n[n_base + place]
    return n_base + n_step


@kernel
def run_blocks(
    plan, flooding, order, numbers, flow, done, apart, tape, origin, examples, first_block, last_block, first_sweep,
    rule, damping, sweeps, residual, lowest, trace, moved, literal, general, sharing, quick, tables, uniform, lane_tag,
    power, semiring,
):  # fmt: skip
    """Blocks of examples on one graph, as many examples side by side as the lane tag says; each example stops by
    itself. Flooding if ``flooding`` is given, sequential if ``order`` is, the other one None: what is under a test of
    an argument that is None is not even compiled. The arrays of ``flow``, ``done`` and ``tape`` begin with block
    ``origin``. ``apart``: whether any of ``done`` is not that of ``flow``. ``first_sweep``: 0, or 1 to go on from an
    earlier run, whose messages to factors and beliefs are in ``flow``. ``trace``: empty, or as many arrays like
    ``flow.beliefs`` as there are sweeps after the first visit, which then get the beliefs after each, and ``moved``
    ``[sweeps, examples]`` their largest changes. ``tables``: None, or tables and their transposes where
    :func:`visit_pairs` will do."""
    lanes = lanes_of(lane_tag)
    slots, states = U(plan.slots), U(plan.state_start[-1])
    variables = U(plan.state_start.shape[0] - 1)
    running = np.empty(np.int64(lanes), dtype=np.bool_)
    before = np.empty(np.int64(slots * lanes), dtype=flow.m.dtype)
    previous, expected = np.empty(np.int64(lanes)), np.empty(np.int64(lanes))
    excess = np.empty(np.int64(lanes), dtype=flow.m.dtype)
    for block in range(U(first_block), U(last_block)):
        place = block - U(origin)
        base, belief_base, unary_base = place * slots * lanes, place * states * lanes, block * U(plan.unary_block)
        n_base = place * tape.n_block
        scratch = new_scratch(plan, flow.m, lane_tag)
        for lane in range(lanes):
            running[lane], previous[lane], expected[lane] = block * lanes + lane < U(examples), np.inf, np.inf
        for sweep in range(first_sweep, rule.iterations + 1):
            watch = is_watched(sweep, rule) or trace.shape[0] > 0
            judged = False
            for lane in range(lanes):
                judged = judged or (running[lane] and is_near(expected[lane], rule))
            if judged:
                copy_messages(flow.m, base, slots * lanes, before, U(0))
            fill(scratch.change, 0)
            if flooding is not None:
                if sweep > 0:
                    factor_step(
                        plan, block, U(0), U(1), numbers.theta, flow, base, n_base, damping, scratch, literal, general,
                        sharing, lane_tag, semiring,
                    )  # fmt: skip
                    n_base += tape.n_step
                visit_variables(
                    U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base,
                    n_base, belief_base, watch, damping, scratch, (), None, None, None, uniform, lane_tag,
                    lane_tag, power, semiring,
                )  # fmt: skip
                keep_messages(tape, place, U(sweep), flow.m, base, U(0), slots * lanes)
            if order is not None:
                for turn in range(0 if sweep > 0 else 1, 2):  # forth and back; at first one visit that only sends
                    if sweep > 0:
                        n_base = next_step(flow.n, n_base, tape.n_step)
                    if tables is not None:
                        visit_pairs(
                            order.way[turn], order.pull[turn if sweep > 0 else 2], turn == 1, plan, block, tables,
                            numbers.unary, unary_base, flow, base, n_base, belief_base, watch and turn == 1, scratch,
                            literal, semiring,
                        )  # fmt: skip
                    if tables is None:
                        visit_variables(
                            U(0), variables, order.way[turn], order.pull[turn if sweep > 0 else 2], plan, block,
                            numbers.theta, numbers.unary, unary_base, flow, base, n_base, belief_base,
                            watch and turn == 1, damping, scratch, literal, general, sharing, quick, uniform, lane_tag,
                            lane_tag, power, semiring,
                        )  # fmt: skip
                    keep_messages(tape, place, U(2 * sweep - 1 + turn), flow.m, base, U(0), slots * lanes)
            if trace.shape[0] > 0 and sweep > 0:
                kept = U(sweep - 1) * U(flow.beliefs.shape[0]) + belief_base
                for at in range(states * lanes):
                    trace[kept + at] = flow.beliefs[belief_base + at]
                for lane in range(lanes):
                    moved[sweep - 1, block * lanes + lane] = scratch.change[lane]
            if judged:
                excess_change(flow.m, base, slots, before, U(0), rule, excess, lane_tag, semiring)
            going, known, unsettled = False, change_is_known(sweep, first_sweep, rule), False
            for lane in range(lanes):
                if not running[lane]:
                    continue
                example = block * lanes + lane
                change = scratch.change[lane]
                left = sweep_residual(change, previous[lane], is_near(expected[lane], rule), excess[lane], rule)
                unsettled = unsettled or left == np.inf
                if known:
                    expected[lane], previous[lane] = expected_change(change, previous[lane]), change
                sweeps[example] = sweep
                residual[example] = left
                lowest[example] = scratch.lowest[lane]
                if sweep == rule.iterations or (sweep > 0 and rule.tolerance > 0 and left < rule.tolerance):
                    running[lane] = False
                    if apart:
                        retire(flow, done, base, n_base, belief_base, slots, states, lane, lanes)
                else:
                    going = True
            if judged and unsettled and sweep == rule.iterations:
                message_change(flow.m, base, slots, before, U(0), excess, lane_tag, semiring)
                for lane in range(lanes):
                    if block * lanes + lane < U(examples) and residual[block * lanes + lane] == np.inf:
                        residual[block * lanes + lane] = max(scratch.change[lane], excess[lane] * rule.reach)
            if not going:
                break
