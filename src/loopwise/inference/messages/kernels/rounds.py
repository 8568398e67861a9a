"""Rounds of the residual schedule: which messages are worth sending next.

In: a key for each edge, by how much its message may have changed, in units of what is worth sending. Out: rounds. In a
round all edges are gone through, in order or back, and those send whose key, when their turn comes, is above the floor
of the round: a share of the largest key there was when it began. A priority queue would keep keys in order at every
change, and each message changes several: that takes longer than all else. Wide rounds are cheap, narrow ones converge
more often: they are wide at first, and narrow where a model turns out to be hard.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import FEW_LANES, U
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.lane_vectors import below, load, spread
from loopwise.inference.messages.kernels.message_vectors import quick

WIDE, NARROW = 0.125, 0.5  # shares of the largest key: messages of larger keys go in the same round
EASY = 16  # sweeps: who takes more of them is hard
MOST_KEY = 1e300
NO_ROUND = -1.0
GROUP, EIGHT = FEW_LANES, (0,)  # edges whose keys are looked at together; and their lane tag


class Keys(NamedTuple):
    """The key of each edge, and the same memory as integers, whose order is that of the keys. Edges stand in groups;
    after the last group is one more place."""

    values: Any  # float64 [groups * GROUP + 1]
    bits: Any


@callee
def new_keys(edges):
    """Keys of so many edges, all 0."""
    values = np.zeros(-(-edges // GROUP) * GROUP + 1)
    return Keys(values, values.view(np.int64))


@quick
def largest_key(keys):
    """The largest of all; integers are compared, since these comparisons become vector instructions."""
    bits, last = keys.bits, keys.bits.shape[0] - 1
    largest = np.int64(0)
    for edge in range(last):
        largest = max(largest, bits[edge])
    bits[last] = largest
    value = keys.values[last]
    bits[last] = 0
    return value


@quick
def next_floor(keys, sent, edges):
    """What a key must be above to be sent for in the next round, after so many messages in all; ``NO_ROUND`` if none is
    worth it."""
    largest, share = largest_key(keys), WIDE if sent < EASY * edges else NARROW
    return max(min(largest, MOST_KEY) * share, 1.0) if largest > 1.0 else NO_ROUND


@quick
def turned(turn, rounds, count):
    """Which of ``count`` groups or edges is next: every other round goes back, so that news travel far either way."""
    return turn if rounds % 2 == 0 else count - 1 - turn


@quick
def any_above(keys, first, floor):
    """Whether a key of the group that begins with edge ``first`` is above the floor."""
    return below(spread(floor, keys.values, EIGHT), load(keys.values, U(first), EIGHT)) != 0
