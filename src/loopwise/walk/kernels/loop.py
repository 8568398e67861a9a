"""The compiled walk that learns: one loop for all models and learners.

In: a model and a world as named tuples of arrays, a rule, visits (which document, how many steps, which random stream).
Out: weights. Below the stages. :mod:`loopwise.walk.plain` is the same loop in Python classes and takes the same steps,
number for number.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import inlined, kernel, leaf
from loopwise.inference.gibbs.kernels.gibbs import seed_stream
from loopwise.walk.kernels.codes import ACCEPTED, KEEP, MOVED, NO_TRUTH, STEPS, TRUTH
from loopwise.walk.kernels.delta import accumulate, clear, dot
from loopwise.walk.kernels.models import (
    accepts,
    apply_move,
    begin,
    delta_features,
    emit_ranked,
    emit_state,
    extent,
    gain_of,
    gap_of,
    propose,
    undo_move,
)
from loopwise.walk.kernels.rules import learn_from_truth, rank_pair


@leaf
def _begin_visit(model, world, rule, work, document, kind):
    """Start state, and with a rule about the truth the difference to it."""
    generator = work.generator
    clear(work.truth)
    clear(work.gold)
    if rule.truth != NO_TRUTH and not rule.reset:
        start, end = extent(model, document)
        states = world.states
        if kind == KEEP:
            for place in range(start, end):
                work.items[place - start] = states[place]
        begin(model, world, document, TRUTH, generator)
        emit_state(model, world, document, 1.0, work.gold)
        if kind == KEEP:
            for place in range(start, end):
                states[place] = work.items[place - start]
    begin(model, world, document, kind, generator)
    if rule.truth != NO_TRUTH and not rule.reset and kind != TRUTH:
        _rebuild(model, world, work, document)


@leaf
def _rebuild(model, world, work, document):
    """The difference to the truth, from scratch."""
    clear(work.truth)
    accumulate(work.truth, work.gold, 1.0)
    emit_state(model, world, document, -1.0, work.truth)


@inlined
def _learn_step(model, world, rule, learning, work, document, step, tally):
    """Proposal, atomic update, acceptance; what the signal would gain, and whether the move was made."""
    weights, delta, move, pair = learning.weights, work.delta, work.move, work.pair
    pair[0] = -1
    learning.clock[0] += 1
    tally[STEPS] += 1
    moved, ratio = propose(model, world, document, weights, rule.temperature, step, work.generator, move, pair)
    if pair[0] >= 0 and rule.atomic:
        gain = emit_ranked(model, world, document, pair, delta)
        rank_pair(rule, learning, delta, gain, tally)
        clear(delta)
    if not moved:
        move[0] = -1
        return 0.0, False
    tally[MOVED] += 1
    gain = gain_of(model, world, document, move)
    if gain != gain:
        return gain, False
    delta_features(model, world, document, move, delta)
    if pair[0] < 0 and rule.atomic:
        before, after = rank_pair(rule, learning, delta, gain, tally)
        score = before if rule.stale else after
    else:
        score = 0.0 if ratio == np.inf else dot(delta, weights)
    accepted = accepts(score, ratio, rule.temperature, work.generator)
    if accepted:
        tally[ACCEPTED] += 1
        apply_move(model, world, document, move)
        if rule.truth != NO_TRUTH:
            accumulate(work.truth, delta, -1.0)
    clear(delta)
    return gain, accepted


@leaf
def _truth_step(model, world, rule, learning, work, document, taken, depth, tally):
    """The update towards the truth that is due after a step, and the way back there; the moves still to undo.
    ``taken``: the step's number, what the signal gained, and whether it was accepted."""
    step, gain, accepted = taken
    if accepted and rule.reset:
        for number in range(4):
            work.stack[depth, number] = work.move[number]
        depth += 1
    if (step + 1) % rule.every == 0:
        if not rule.truth_on_ties or abs(gain) <= rule.tolerance:
            learn_from_truth(rule, learning, work.truth, gap_of(model, world, document), tally)
        if rule.reset:
            while depth > 0:
                depth -= 1
                undo_move(model, world, document, work.stack[depth])
            clear(work.truth)
    if not rule.reset and (step + 1) % rule.rebuild == 0:
        _rebuild(model, world, work, document)
    return depth


@kernel(_nrt=False)
def run_walk(model, world, rule, learning, visits, work, tally, trace):
    """Walks and learns; -1, or the number of the visit in which the signal was not a number.

    ``tally`` int64 [visits, TALLY]. ``trace`` int64 [steps, 4]: item, old, new, accepted of the first steps.
    """
    traced = 0
    for visit in range(len(visits.document)):
        document = visits.document[visit]
        seed_stream(work.generator, visits.seed, visits.stream[visit])
        _begin_visit(model, world, rule, work, document, visits.start[visit])
        depth = np.int64(0)  # typed as what _truth_step gives back, which is then compiled once
        for step in range(visits.steps[visit]):
            gain, accepted = _learn_step(model, world, rule, learning, work, document, step, tally[visit])
            if gain != gain:
                return visit
            if traced < len(trace):
                for number in range(3):
                    trace[traced, number] = work.move[number]
                trace[traced, 3] = accepted
                traced += 1
            if rule.truth != NO_TRUTH:
                taken = (step, gain, accepted)
                depth = _truth_step(model, world, rule, learning, work, document, taken, depth, tally[visit])
    return -1
