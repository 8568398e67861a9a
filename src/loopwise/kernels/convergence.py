"""When a run has converged: judged on normalised log messages, since a saturated belief hides changes of many nats.

In: messages before and after a sweep. Out: their largest change in nats, and the residual of the sweep. Stage: below
inference.

To compare all messages costs a quarter of a sweep, to compare beliefs little. So a sweep is *judged* only if the one
before it came near: if it changed no belief by more than :data:`NEAR` times the threshold. Nothing stops at, and
nothing is claimed of, a sweep that was not judged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.kernels.arithmetic import kernel, lanes_of, scalar

NEAR = 10.0


class StopRule(NamedTuple):
    """When a run ends."""

    iterations: Any  # sweeps at most
    tolerance: Any  # of the residual; 0: never before
    threshold: Any  # what counts as converged: the tolerance, or rounding where there is none
    reach: Any  # how far a belief can move when a log message moves by one nat


@kernel
def copy_messages(m, base, count, before, start):
    """Keeps ``count`` numbers of ``m`` for :func:`message_change`."""
    for place in range(count):
        before[start + place] = m[base + place]


@kernel
def message_change(m, base, count, before, start, change, lane_tag, semiring):
    """``change[lane]``: the largest change of a normalised log message, in nats; ``count`` is a number of lanes' rows.

    Rounding of a logarithm counts as no change, nor does anything below the smallest normal probability.
    """
    lanes = lanes_of(lane_tag)
    tiny = m.dtype.type(2.2250738585072014e-308) if m.itemsize == 8 else m.dtype.type(1.1754944e-38)
    rounding = m.dtype.type(4 * 2.220446049250313e-16) if m.itemsize == 8 else m.dtype.type(4 * 1.1920929e-07)
    change[:] = 1 if len(semiring) < 2 else 0
    for row in range(count):
        for lane in range(lanes):
            new, old = m[base + row * lanes + lane], before[start + row * lanes + lane]
            if len(semiring) < 2:
                high, low = max(max(new, old), tiny), max(min(new, old), tiny)
                change[lane] = max(change[lane], high / low)
            elif new != old:
                moved = abs(new - old)
                if moved < np.inf:
                    moved -= rounding * max(abs(new), abs(old))
                change[lane] = max(change[lane], moved)
    if len(semiring) < 2:
        for lane in range(lanes):
            change[lane] = math.log(change[lane])


@scalar
def is_near(previous, rule):
    """Whether a sweep is to be judged, by the change of beliefs in the one before."""
    return previous <= NEAR * rule.threshold


@scalar
def sweep_residual(change, previous, pending, rule):
    """The residual of a sweep that changed beliefs by ``change`` and log messages by ``pending`` nats.

    One that was not judged is never below the threshold: then the larger change of the sweep before stands for it.
    """
    if is_near(previous, rule):
        return max(change, pending * rule.reach)
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
