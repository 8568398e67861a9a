"""Undoing a run step by step, from the last to the first: the adjoint of ``schedules``.

In: messages to factors after every step (the tape), seeds from the loss. Out: adjoints of the messages that step
``low`` started from, of potentials, and of inference parameters where asked for.

Undoing step s needs the messages to factors after step s - 1 only. A tape whose steps all stand in the same place
(``n_step`` 0) gives the adjoint sweeps at a fixed point.
"""

from __future__ import annotations

from numba.extending import overload

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import INLINED, fused_callee, fused_kernel
from loopwise.inference.messages.kernels.factor_adjoints import factors_back, message_back
from loopwise.inference.messages.kernels.pair_floods import answers_back, undo_pairs
from loopwise.inference.messages.kernels.plan import Flood, PairFlood, Span, new_undo_scratch, of_share, told_by, wait
from loopwise.inference.messages.kernels.variable_adjoints import (
    ADD,
    ADD_AND_CLEAR,
    WRITE,
    damping_back,
    enter_seeds,
    exponents_back,
    variables_back,
)
from loopwise.inference.messages.kernels.views import Message


@fused_callee
def tape_n(segment, step):
    """Messages to factors after a step."""
    return Message(segment.n, segment.n_base + U(step - segment.low) * segment.tape.n_step)


@fused_callee
def tape_m(segment, step):
    """Messages to variables after a step, if the tape has them."""
    return Message(segment.tape.m, segment.m_base + U(step - segment.low) * segment.tape.m_step)


@fused_callee
def undo_half_sweep(run, schedule, segment, step, block, adjoint, scratch, static):
    """Undoes the visits to all variables in ``step``, last to first."""
    plan, lanes, turn, now = run.plan, lanes_of(static.lanes), 1 - step % 2, adjoint.now
    order, pull, variables = schedule.way[turn], schedule.pull[turn], U(plan.state_start.shape[0] - 1)
    before, after, kept_m = tape_n(segment, step - 1), tape_n(segment, step), tape_m(segment, step)
    n, first, trained = segment.n, before.start, adjoint.exponents.shape[0] > 0
    for place in range(U(plan.slots) * lanes):
        now[place] = n[after.start + place]
    for back in range(variables):
        index = variables - U(1) - back
        variable = U(order[index])
        size = U(plan.state_start[variable + U(1)] - plan.state_start[variable]) * lanes
        if trained:
            exponents_back(run, Span(variable, variable + U(1)), kept_m, adjoint, static)
        variables_back(run, Span(index, index + U(1)), order, block, adjoint, ADD_AND_CLEAR, scratch, static)
        for at in range(U(plan.edge_start[variable]), U(plan.edge_start[variable + U(1)])):
            here = plan.edge_base[at]
            for place in range(here, here + size):
                now[place] = n[first + place]
            if pull[at]:
                if segment.tape.every > U(0):
                    changed = Span(here, here + size)
                    damping_back(tape_m(segment, step - 1), kept_m, changed, adjoint, run.kept, static.semiring)
                message_back(run, told_by(plan, at, block), adjoint, scratch, static)


def all_undone(run, schedule, share, n, adjoint, scratch, static):
    """Undoes the messages of a thread's share of all factors, made of the messages ``n``."""


@overload(all_undone, jit_options=INLINED)
def _all_undone(run, schedule, share, n, adjoint, scratch, static):
    def plain(run, schedule, share, n, adjoint, scratch, static):
        factors_back(run, share, n, adjoint, scratch, static.sharing, static)

    def vectors(run, schedule, share, n, adjoint, scratch, static):
        undo_pairs(run, schedule, n, adjoint, scratch, static)

    return vectors if schedule.instance_class is PairFlood else plain


def visits_undone(run, schedule, span, block, adjoint, adding, scratch, static):
    """Undoes the visits to the variables ``span``, in whatever order; ``adding``: to adjoints that are there."""


@overload(visits_undone, jit_options=INLINED)
def _visits_undone(run, schedule, span, block, adjoint, adding, scratch, static):
    def plain(run, schedule, span, block, adjoint, adding, scratch, static):
        variables_back(run, span, None, block, adjoint, ADD if adding else WRITE, scratch, static)

    def vectors(run, schedule, span, block, adjoint, adding, scratch, static):
        answers_back(run, adjoint, adding, static)

    return vectors if schedule.instance_class is PairFlood else plain


@fused_callee
def unflood(run, schedule, segment, step, share, adjoint, scratch, static):
    """Undoes a flooding step but for its visits to variables."""
    if segment.tape.every > U(0):
        span = of_share(U(run.plan.slots) * lanes_of(static.lanes), share)
        before, after = tape_m(segment, step - 1), tape_m(segment, step)
        damping_back(before, after, span, adjoint, run.kept, static.semiring)
        wait(share)
    all_undone(run, schedule, share, tape_n(segment, step - 1), adjoint, scratch, static)
    wait(share)


@fused_callee
def go_back(run, schedule, segment, step, share, adjoint, scratch, static):
    """Undoes half a sequential sweep."""
    undo_half_sweep(run, schedule, segment, step, share.block, adjoint, scratch, static)


def undo_step(run, schedule, segment, step, share, adjoint, scratch, static):
    """Undoes one step by its schedule."""


@overload(undo_step, jit_options=INLINED)
def _undo_step(run, schedule, segment, step, share, adjoint, scratch, static):
    return (unflood if schedule.instance_class in (Flood, PairFlood) else go_back).py_func


def is_flooding(schedule):
    """Whether a step is a sweep in which all variables are visited at once."""


@overload(is_flooding, jit_options=INLINED)
def _is_flooding(schedule):
    if schedule.instance_class in (Flood, PairFlood):
        return lambda schedule: True
    return lambda schedule: False


@fused_callee
def undo_with(run, schedule, segment, adjoint, share, scratch, static):
    """:func:`undo_steps` with working space: what allocates it counts references, which would double the code."""
    plan, low, kept, flooding = run.plan, segment.low, run.kept, is_flooding(schedule)
    span = of_share(plan.state_start.shape[0] - 1, share)
    step = segment.high
    while True:
        # Undoing undamped factors leaves nothing to add to; nor does it zero what it leaves.
        adding = kept > 0 or not flooding or step == segment.high
        if flooding or step % 2 == 0:
            sweep = step if flooding else step // 2
            adding = enter_seeds(run, span, share.block, sweep, tape_m(segment, step), adjoint, adding, static)
        if flooding or step == 0:  # the first visit of all, in whatever order
            if adjoint.exponents.shape[0] > 0:
                exponents_back(run, span, tape_m(segment, step), adjoint, static)
            visits_undone(run, schedule, span, share.block, adjoint, adding, scratch, static)
            wait(share)
        if step == low:
            break
        undo_step(run, schedule, segment, step, share, adjoint, scratch, static)
        step -= 1
        if step == low and low > 0:
            if flooding and kept == 0:
                places = of_share(U(plan.slots) * lanes_of(static.lanes), share)
                for place in range(places.first, places.last):
                    adjoint.m[place] = 0
            break


@fused_kernel
def undo_steps(run, schedule, segment, adjoint, share, static):
    """Undoes the steps of one segment of a block's run, last to first; if it begins with step 0, also the messages to
    factors at the start.

    ``adjoint.m`` and ``adjoint.n`` hold what is known already of the adjoints after the last step. Where factors stand
    in the lanes, threads call this together as in ``flood_graph``.
    """
    scratch = new_undo_scratch(run.plan, adjoint.m, static.lanes)
    undo_with(run, schedule, segment, adjoint, share, scratch, static)
