"""The flooding and the sequential schedule, from initial to final messages.

In: potentials and initial messages. Out: final messages, variable beliefs, and per example the sweeps, the last
change and the smallest normaliser (below a floor: the run lost digits to underflow).

A flooding sweep renews all messages to variables, then all messages to factors; a sequential sweep visits the
variables in order and back. Either way messages to factors are up to date with messages to variables at the end.
Kernels are kept shallow: the compiler optimises a callee again in each of its callers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.arrays import fill, largest
from loopwise.compiled.decorators import INLINED
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
from loopwise.inference.messages.kernels.message_vectors import tell_tables
from loopwise.inference.messages.kernels.pair_floods import send_pairs, visit_by_vectors
from loopwise.inference.messages.kernels.pair_visits import visit_pairs
from loopwise.inference.messages.kernels.plan import (
    Block,
    Flood,
    PairFlood,
    PairOrder,
    Share,
    Span,
    new_scratch,
    of_share,
    wait,
)
from loopwise.inference.messages.kernels.variables import visit_variables


@callee
def block_at(run, block, origin, static):
    """Where a block stands whose run begins with block ``origin``; messages to factors: at step 0."""
    plan, place, lanes = run.plan, block - origin, lanes_of(static.lanes)
    states = U(plan.state_start[-1]) * lanes_of(static.variable_lanes)
    return Block(
        block, place * U(plan.slots) * lanes, place * run.tape.n_block, block * U(plan.unary_block), place * states
    )


@callee
def at_step(here, n):
    """The block with its messages to factors at ``n``."""
    return Block(here.block, here.m, n, here.unary, here.beliefs)


@callee
def keep_messages(run, here, place, step, span):
    """Copies messages to variables of a block, the one at ``place`` on the tape, if the tape wants this step."""
    tape, m = run.tape, run.messages.m
    if tape.every > U(0) and step % tape.every == U(0):
        kept, target = place * tape.m_block + step // tape.every * tape.m_step, tape.m
        for number in range(span.first, span.last):
            target[kept + number] = m[here.m + number]


@callee
def flood_with(run, share, origin, first_sweep, before, change, scratch, static):
    """:func:`flood_graph` with working space for factors and for variables: what allocates it counts references, which
    would double the code of the rest."""
    plan, tape, rule, m, semiring = run.plan, run.tape, run.rule, run.messages.m, static.semiring
    lanes, part, place, slots = lanes_of(static.lanes), share.part, share.block - origin, U(plan.slots)
    rows, span = of_share(slots, share), of_share(plan.state_start.shape[0] - 1, share)
    mine, count = Span(rows.first * lanes, rows.last * lanes), rows.last - rows.first
    begin = block_at(run, share.block, origin, static)
    here = begin
    factor_scratch, variable_scratch = scratch
    sweeps, residual, moved, previous, expected, judged = 0, np.inf, np.inf, np.inf, np.inf, False
    for sweep in range(first_sweep, rule.iterations + 1):
        judged = is_near(expected, rule)
        if judged:
            copy_messages(m, here.m + mine.first, mine.last - mine.first, before, mine.first)
            wait(share)
        if sweep > 0:
            here = at_step(begin, begin.n + U(sweep - 1) * tape.n_step)
            factor_step(run, here, share, factor_scratch, static.sharing, static)
            wait(share)
        keep_messages(run, here, place, U(sweep), mine)
        variable_scratch.change[0] = 0
        here = at_step(begin, begin.n + U(sweep) * tape.n_step)
        visit_variables(run, here, span, None, None, is_watched(sweep, rule), variable_scratch, static)
        change[0, part] = variable_scratch.change[0]
        if judged:
            moves = factor_scratch.change
            excess_change(m, here.m + mine.first, count, before, mine.first, rule, moves, static.lanes, semiring)
            change[1, part] = largest(moves)
        wait(share)
        sweeps, moved = sweep, largest(change[0])
        residual = sweep_residual(moved, previous, judged, largest(change[1]), rule)
        if change_is_known(sweep, first_sweep, rule):
            expected, previous = expected_change(moved, previous), moved
        if sweep > 0 and rule.tolerance > 0 and residual < rule.tolerance:
            break
    if residual == np.inf and judged:  # the same in every thread: messages of the last sweep have not come to rest
        message_change(m, here.m, slots, before, U(0), factor_scratch.change, static.lanes, semiring)
        residual = max(moved, largest(factor_scratch.change) * rule.reach)
    lowest = variable_scratch.lowest[0]
    for lane in range(factor_scratch.lowest.shape[0]):
        lowest = min(lowest, factor_scratch.lowest[lane])
    return sweeps, residual, moved, lowest


@kernel
def flood_graph(run, share, origin, first_sweep, before, change, static):
    """One example (a block), its factors in lanes. Threads call this together, each with its own share; they share
    ``before`` (room for its messages) and ``change`` ``[2, parts]``, and meet after every half-sweep. The arrays of the
    run begin with block ``origin``. ``first_sweep``: 0, or 1 to go on from an earlier run, whose messages to factors
    and beliefs are there.

    Returns the sweeps made, the residual, the last change of a belief and the smallest normaliser.
    """
    plan, m = run.plan, run.messages.m
    scratch = new_scratch(plan, m, static.lanes), new_scratch(plan, m, static.variable_lanes)
    return flood_with(run, share, origin, first_sweep, before, change, scratch, static)


@callee
def retire(run, here, done, lane, static):
    """Copies one finished example out of its block, so that its neighbours can go on without changing it."""
    flow, lanes, states = run.messages, lanes_of(static.lanes), U(run.plan.state_start[-1])
    for slot in range(U(run.plan.slots)):
        place = slot * lanes + lane
        done.m[here.m + place] = flow.m[here.m + place]
        done.n[here.m + place] = flow.n[here.n + place]
    for state in range(states):
        place = here.beliefs + state * lanes + lane
        done.beliefs[place] = flow.beliefs[place]


@callee
def next_step(run, here, static):
    """The block at its next step, whose messages to factors begin as those of this one."""
    n, step = run.messages.n, run.tape.n_step
    if step > U(0):
        for place in range(whole_block(run, static).last):
            n[here.n + step + place] = n[here.n + place]
    return at_step(here, here.n + step)


def all_send(run, here, schedule, scratch, static):
    """Messages of all factors."""


@overload(all_send, jit_options=INLINED)
def _all_send(run, here, schedule, scratch, static):
    def plain(run, here, schedule, scratch, static):
        factor_step(run, here, Share(here.block, U(0), U(1), None), scratch, static.sharing, static)

    return send_pairs.py_func if schedule.instance_class is PairFlood else plain


def all_answer(run, here, schedule, watch, scratch, static):
    """Messages of all variables, and with ``watch`` their beliefs."""


@overload(all_answer, jit_options=INLINED)
def _all_answer(run, here, schedule, watch, scratch, static):
    def plain(run, here, schedule, watch, scratch, static):
        variables = U(run.plan.state_start.shape[0] - 1)
        visit_variables(run, here, Span(U(0), variables), None, None, watch, scratch, static)

    def vectors(run, here, schedule, watch, scratch, static):
        visit_by_vectors(run, here, watch, scratch, static)

    return vectors if schedule.instance_class is PairFlood else plain


@callee
def flood(run, here, schedule, place, sweep, watch, scratch, static):
    """A flooding sweep: all factors, then all variables."""
    if sweep > 0:
        all_send(run, here, schedule, scratch, static)
        here = at_step(here, here.n + run.tape.n_step)
    all_answer(run, here, schedule, watch, scratch, static)
    keep_messages(run, here, place, U(sweep), whole_block(run, static))
    return here


@callee
def go_round(run, here, schedule, place, sweep, watch, scratch, static):
    """A sequential sweep: the variables in order and back; at first one visit that only sends."""
    for turn in range(0 if sweep > 0 else 1, 2):
        if sweep > 0:
            here = next_step(run, here, static)
        pulls = turn if sweep > 0 else 2
        visit_in_order(run, here, schedule, turn, pulls, watch and turn == 1, scratch, static)
        keep_messages(run, here, place, U(2 * sweep - 1 + turn), whole_block(run, static))
    return here


@callee
def visit_in_turn(run, here, schedule, turn, pulls, watch, scratch, static):
    """Visits all variables forth (``turn`` 0) or back (1), pulling by a row of the schedule's marks."""
    span, pull = Span(U(0), U(run.plan.state_start.shape[0] - 1)), schedule.pull[pulls]
    visit_variables(run, here, span, schedule.way[turn], pull, watch, scratch, static)


def visit_in_order(run, here, schedule, turn, pulls, watch, scratch, static):
    """:func:`visit_in_turn`, as vectors where the schedule says so."""


@overload(visit_in_order, jit_options=INLINED)
def _visit_in_order(run, here, schedule, turn, pulls, watch, scratch, static):
    return (visit_pairs if schedule.instance_class is PairOrder else visit_in_turn).py_func


def make_ready(run, schedule, block, static):
    """Puts the tables of a block in the order of the visits, where these want that."""


@overload(make_ready, jit_options=INLINED)
def _make_ready(run, schedule, block, static):
    if schedule.instance_class is not PairOrder:
        return lambda run, schedule, block, static: None
    return lambda run, schedule, block, static: tell_tables(
        run.plan, run.potentials.theta, block, schedule.edges, schedule.tables, static.literal
    )


def make_sweep(run, here, schedule, place, sweep, watch, scratch, static):
    """Sweep ``sweep`` of the block at ``place`` on the tape, by the schedule; returns the block at its last step."""


@overload(make_sweep, jit_options=INLINED)
def _make_sweep(run, here, schedule, place, sweep, watch, scratch, static):
    return (flood if schedule.instance_class in (Flood, PairFlood) else go_round).py_func


@callee
def whole_block(run, static):
    """All places of a block's messages."""
    return Span(U(0), U(run.plan.slots) * lanes_of(static.lanes))


@callee
def keep_beliefs(run, here, ends, sweep, scratch, static):
    """Copies the beliefs after ``sweep``, and by how much they changed, to the trace."""
    beliefs, trace, moved, lanes = run.messages.beliefs, ends.trace, ends.moved, lanes_of(static.lanes)
    kept = U(sweep - 1) * U(beliefs.shape[0]) + here.beliefs
    for at in range(U(run.plan.state_start[-1]) * lanes):
        trace[kept + at] = beliefs[here.beliefs + at]
    for lane in range(lanes):
        moved[sweep - 1, here.block * lanes + lane] = scratch.change[lane]


class BlockScratch(NamedTuple):
    """Working space of a block: of its factors and variables, its messages before a sweep, and of each of its examples
    whether it goes on, its last and its expected change, and by how much messages changed."""

    scratch: Any
    before: Any
    running: Any
    previous: Any
    expected: Any
    excess: Any


@callee
def new_lanes(plan, like, lane_tag):
    lanes, slots = np.int64(lanes_of(lane_tag)), np.int64(plan.slots)
    return BlockScratch(
        new_scratch(plan, like, lane_tag), np.empty(slots * lanes, dtype=like.dtype), np.empty(lanes, dtype=np.bool_),
        np.empty(lanes), np.empty(lanes), np.empty(lanes, dtype=like.dtype),
    )  # fmt: skip


@callee
def run_block(run, schedule, block, origin, first_sweep, ends, room, static):
    """One block of :func:`run_blocks`; ``room`` is fresh."""
    plan, rule, m, semiring = run.plan, run.rule, run.messages.m, static.semiring
    slots, lanes = U(plan.slots), lanes_of(static.lanes)
    scratch, before, running, previous, expected, excess = room
    here = block_at(run, block, origin, static)
    for lane in range(lanes):
        running[lane], previous[lane], expected[lane] = block * lanes + lane < U(run.examples), np.inf, np.inf
    for sweep in range(first_sweep, rule.iterations + 1):
        judged = False
        for lane in range(lanes):
            judged = judged or (running[lane] and is_near(expected[lane], rule))
        if judged:
            copy_messages(m, here.m, slots * lanes, before, U(0))
        fill(scratch.change, 0)
        watch = is_watched(sweep, rule) or ends.trace.shape[0] > 0
        here = make_sweep(run, here, schedule, block - origin, sweep, watch, scratch, static)
        if ends.trace.shape[0] > 0 and sweep > 0:
            keep_beliefs(run, here, ends, sweep, scratch, static)
        if judged:
            excess_change(m, here.m, slots, before, U(0), rule, excess, static.lanes, semiring)
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
            ends.sweeps[example], ends.residual[example], ends.lowest[example] = sweep, left, scratch.lowest[lane]
            if sweep == rule.iterations or (sweep > 0 and rule.tolerance > 0 and left < rule.tolerance):
                running[lane] = False
                if ends.apart:
                    retire(run, here, ends.messages, lane, static)
            else:
                going = True
        if judged and unsettled and sweep == rule.iterations:
            message_change(m, here.m, slots, before, U(0), excess, static.lanes, semiring)
            for lane in range(lanes):
                example = block * lanes + lane
                if example < U(run.examples) and ends.residual[example] == np.inf:
                    ends.residual[example] = max(scratch.change[lane], excess[lane] * rule.reach)
        if not going:
            break


@kernel
def run_blocks(run, schedule, blocks, origin, first_sweep, ends, static):
    """``blocks`` (a span) of examples on one graph, as many examples side by side as the lane tag says; each example
    stops by itself. The arrays of the run begin with block ``origin``. ``first_sweep``: 0, or 1 to go on from an
    earlier run, whose messages to factors and beliefs are there."""
    for block in range(U(blocks.first), U(blocks.last)):
        make_ready(run, schedule, block, static)
        room = new_lanes(run.plan, run.messages.m, static.lanes)
        run_block(run, schedule, block, U(origin), first_sweep, ends, room, static)
