"""When a run has converged: judged on normalised log messages, since a saturated belief hides changes of many nats.

In: messages before and after a sweep. Out: their largest change in nats, and the residual of the sweep. Stage: below
inference.

To compare all messages costs part of a sweep, to compare beliefs little. So a sweep is *judged* only if beliefs are
expected to have come to rest in it, going by how their changes shrank in the two sweeps before. Nothing stops at, and
nothing is claimed of, a sweep that was not judged. By how much messages moved is worked out only where a run ends.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import lanes_of
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar

NEAR = 1.5  # times the threshold: an expected change that is worth judging


LEAST_REACH = 1e-12  # where messages hardly enter their variables
MOST_NATS = 690.0  # of one change: its exponential is still a number
LARGEST_CHANGE = 80.0  # nats: beyond this, its exponential might overflow; no tolerance is so generous


class StopRule(NamedTuple):
    """When a run ends."""

    iterations: Any  # sweeps at most
    tolerance: Any  # of the residual; 0: never before
    threshold: Any  # what counts as converged: the tolerance, or rounding where there is none
    reach: Any  # how far a belief can move in the end, when a log message moves by one nat; 0: messages are not judged


@callee
def copy_messages(m, base, count, before, start):
    """Keeps ``count`` numbers of ``m`` for :func:`message_change`."""
    for place in range(count):
        before[start + place] = m[base + place]


@callee
def message_change(m, base, count, before, start, change, lane_tag, semiring):
    """``change[lane]``: the largest change of a normalised log message, in nats; ``count`` is a number of lanes' rows.

    Rounding of a logarithm counts as no change, nor does anything below the smallest normal probability.
    """
    lanes = lanes_of(lane_tag)
    tiny, rounding = limits_of(m)
    change[:] = 1 if len(semiring) < 2 else 0
    for row in range(count):
        for lane in range(lanes):
            new, old = m[base + row * lanes + lane], before[start + row * lanes + lane]
            if len(semiring) < 2:
                change[lane] = max(change[lane], ratio_of(new, old, tiny))
            else:
                change[lane] = max(change[lane], log_change(new, old, rounding))
    if len(semiring) < 2:
        for lane in range(lanes):
            change[lane] = max(math.log(change[lane]) - rounding, 0.0)


@scalar
def ratio_of(new, old, tiny):
    """By how many times one of two probabilities is the other, as :func:`message_change` counts."""
    return max(max(new, old), tiny) / max(min(new, old), tiny)


@callee
def excess_change(m, base, count, before, start, rule, excess, lane_tag, semiring):
    """``excess[lane]`` is above 0 if a normalised log message can still move a belief by more than the threshold: what
    :func:`message_change` tells, without a division for every number."""
    lanes = lanes_of(lane_tag)
    tiny, rounding = limits_of(m)
    limit = m.dtype.type(min(rule.threshold / max(rule.reach, LEAST_REACH), LARGEST_CHANGE))  # nats
    ratio = m.dtype.type(math.exp(limit))
    excess[:] = -1
    if rule.reach == 0:  # messages are not to be judged
        return
    for row in range(count):
        for lane in range(lanes):
            new, old = m[base + row * lanes + lane], before[start + row * lanes + lane]
            if len(semiring) < 2:
                excess[lane] = max(excess[lane], max(max(new, old), tiny) - ratio * max(min(new, old), tiny))
            else:
                excess[lane] = max(excess[lane], log_change(new, old, rounding) - limit)


@scalar
def limits_of(m):
    """The smallest normal number, and what rounding may do to a logarithm of size one."""
    if m.itemsize == 8:
        return m.dtype.type(2.2250738585072014e-308), m.dtype.type(4 * 2.220446049250313e-16)
    return m.dtype.type(1.1754944e-38), m.dtype.type(4 * 1.1920929e-07)


@scalar
def log_change(new, old, rounding):
    """By how many nats a log message changed, rounding apart."""
    if new == old:
        return rounding * 0
    moved = abs(new - old)
    return moved - rounding * max(1.0, abs(new), abs(old)) if moved < np.inf else moved


@scalar
def expected_change(change, previous):
    """What the next sweep will change beliefs by, if changes go on shrinking at the same rate."""
    return change * change / previous if 0 < change < previous < np.inf else change


@scalar
def is_near(expected, rule):
    """Whether a sweep is to be judged, by the change expected of it."""
    return expected <= NEAR * rule.threshold


@scalar
def sweep_residual(change, previous, judged, excess, rule):
    """The residual of a sweep that changed beliefs by ``change``: that, if it was judged and messages rest.

    If they do not, it is infinite until :func:`message_change` is asked. A sweep that was not judged is never below the
    threshold: then the larger change of the sweep before stands for it.
    """
    if judged:
        return change if excess <= 0 else np.inf
    return change if change > rule.threshold else previous


@scalar
def is_watched(sweep, rule):
    """Whether beliefs are compared after a sweep: without a tolerance only the last changes are asked for, two of them
    for an honest residual, and a belief to begin with."""
    return rule.tolerance > 0 or sweep >= rule.iterations - 2


@scalar
def change_is_known(sweep, first_sweep, rule):
    """Whether beliefs were also watched after the sweep before."""
    return sweep > first_sweep and is_watched(sweep - 1, rule)
