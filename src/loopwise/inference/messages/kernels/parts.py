"""The parts of a union one after another, each until it stops: messages of one part stay in the cache that long.

In: the arrays of a run whose storage has part after part. Out: final messages and beliefs, and per part the sweeps, the
residual and the smallest normaliser; or adjoints. Stage: below inference. Each part has a plan of its own, cut from
that of the union; so it runs, and is undone, as an example alone.

A batch of unions counts as so many parts more: part ``p`` of example ``r`` is number ``r * parts + p``. Threads share
the parts, with all their examples, so that no two add to the same adjoint.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import INLINED
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.convergence import StopRule
from loopwise.inference.messages.kernels.pair_floods import transposed_tables
from loopwise.inference.messages.kernels.plan import (
    Adjoint,
    Ends,
    Flood,
    Linearised,
    Messages,
    Order,
    PairFlood,
    Plan,
    Potentials,
    Run,
    Seeds,
    Share,
    Steps,
    TapeSegment,
    new_undo_scratch,
)
from loopwise.inference.messages.kernels.reverse import undo_with
from loopwise.inference.messages.kernels.schedules import new_lanes, run_block


class PartPiece(NamedTuple):
    """One part of one example: its number, and where its numbers begin and end."""

    number: Any
    part: Any
    m: Any
    m_end: Any
    state: Any
    state_end: Any
    unary: Any  # the same among unary potentials, which examples may share


@callee
def piece_of(plan, cuts, row, part):
    """Part ``part`` of example ``row``."""
    message, state = row * cuts.message[-1], row * cuts.state[-1]
    return PartPiece(
        row * (cuts.state.shape[0] - 1) + part, part, message + cuts.message[part], message + cuts.message[part + 1],
        state + cuts.state[part], state + cuts.state[part + 1], row * plan.unary_block + cuts.state[part],
    )  # fmt: skip


@callee
def plan_of(plan, cuts, piece):
    """The plan of one part by itself."""
    first, last = cuts.variable[piece.part] + piece.part, cuts.variable[piece.part + 1] + piece.part + 1
    return Plan(
        plan.groups[piece.number * cuts.groups : (piece.number + 1) * cuts.groups], plan.state_start[first:last],
        plan.edge_start[first:last], plan.edge_base, plan.edge_group, plan.edge_member, plan.edge_position,
        plan.exponents, plan.cell_slots, plan.shapes, piece.m_end - piece.m, plan.unary_block,
    )  # fmt: skip


@callee
def tape_of(tape, piece):
    """The tape of a run from the first message of one part on."""
    return Steps(tape.n_block, tape.n_step, tape.m[piece.m :], tape.m_block, tape.m_step, tape.every)


@callee
def run_of(run, cuts, rules, piece):
    """The run of one part by itself."""
    flow, rule, given = run.messages, run.rule, run.potentials
    return Run(
        plan_of(run.plan, cuts, piece),
        Potentials(given.theta, given.unary[piece.unary :]),
        Messages(flow.m[piece.m : piece.m_end], flow.n[piece.m :], flow.beliefs[piece.state : piece.state_end]),
        tape_of(run.tape, piece),
        StopRule(rules.iterations[piece.part], rule.tolerance, rule.threshold, rules.reach[piece.part]),
        run.damping,
        1,
    )


def schedule_of(schedule, plan, theta, cuts, part, static):
    """The schedule of one part, whose plan is ``plan``."""


@overload(schedule_of, jit_options=INLINED)
def _schedule_of(schedule, plan, theta, cuts, part, static):
    def order(schedule, plan, theta, cuts, part, static):
        first, last = cuts.variable[part], cuts.variable[part + 1]
        return Order(schedule.way[2 * first : 2 * last].reshape((2, last - first)), schedule.pull)

    def vectors(schedule, plan, theta, cuts, part, static):
        return PairFlood(transposed_tables(plan, theta, static.literal))

    if schedule.instance_class is Flood:
        return lambda schedule, plan, theta, cuts, part, static: schedule
    return vectors if schedule.instance_class is PairFlood else order


@kernel
def run_parts(run, schedule, cuts, rules, span, ends, static):
    """The parts ``span`` of all examples of a union; one message stands after another."""
    done = ends.messages
    for part in range(span.first, span.last):
        for row in range(run.examples):
            piece = piece_of(run.plan, cuts, row, part)
            mine, number = run_of(run, cuts, rules, piece), piece.number
            order = schedule_of(schedule, mine.plan, run.potentials.theta, cuts, part, static)
            mine_ends = Ends(
                Messages(
                    done.m[piece.m : piece.m_end],
                    done.n[piece.m : piece.m_end],
                    done.beliefs[piece.state : piece.state_end],
                ),
                ends.apart,
                ends.sweeps[number : number + 1],
                ends.residual[number : number + 1],
                ends.lowest[number : number + 1],
                ends.trace,
                ends.moved,
            )
            room = new_lanes(mine.plan, mine.messages.m, static.lanes)
            run_block(mine, order, U(0), U(0), 0, mine_ends, room, static)


@callee
def seeds_of(seeds, piece):
    """What the loss says of one part."""
    sweeps = seeds.trace.shape[0] // max(1, seeds.unary.shape[0])
    return Seeds(
        seeds.unary[piece.state : piece.state_end],
        seeds.m[piece.m : piece.m_end],
        seeds.n[piece.m : piece.m_end],
        seeds.trace[sweeps * piece.state : sweeps * piece.state_end],
        seeds.last[piece.number : piece.number + 1],
    )


@callee
def adjoint_of(adjoint, cuts, piece):
    """The adjoints of one part."""
    return Adjoint(
        adjoint.m[piece.m : piece.m_end],
        adjoint.n[piece.m : piece.m_end],
        adjoint.now[piece.m : piece.m_end],
        adjoint.theta,
        adjoint.theta_start[piece.number * cuts.groups : (piece.number + 1) * cuts.groups],
        adjoint.unary[piece.unary :],
        adjoint.unary_block,
        adjoint.damping,
        adjoint.exponents,
    )


@kernel
def undo_parts(run, schedule, segment, adjoint, cuts, span, static):
    """Undoes the steps of one segment of the runs of the parts ``span``, as ``undo_steps`` does for an example;
    ``segment.high``: of each part."""
    barrier = np.zeros(2, np.int64)
    for part in range(span.first, span.last):
        for row in range(run.examples):
            piece = piece_of(run.plan, cuts, row, part)
            high = segment.high[piece.number]
            if segment.low > 0 and high <= segment.low:
                continue
            plan = plan_of(run.plan, cuts, piece)
            mine = Linearised(plan, run.theta, 1, run.kept, seeds_of(run.seeds, piece))
            tape = tape_of(segment.tape, piece)
            steps = TapeSegment(high, segment.low, segment.n[piece.m :], segment.n_base, tape, segment.m_base)
            order = schedule_of(schedule, plan, run.theta, cuts, part, static)
            scratch = new_undo_scratch(plan, adjoint.m, static.lanes)
            share = Share(U(0), U(0), U(1), barrier)
            undo_with(mine, order, steps, adjoint_of(adjoint, cuts, piece), share, scratch, static)
