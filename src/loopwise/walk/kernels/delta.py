"""Compiled sparse vectors that collect feature differences.

In: keys (weight numbers) and values, one at a time. Out: the distinct keys in order of first appearance with their
sums. Below the stages. O(1) an entry whatever the number of weights; the plain walk keeps a dict, which has the same
order, so that both add up the same numbers in the same order.

Functions of walks are compiled without reference counts (``_nrt=False``): counting those of each array, at each call,
takes ten times as long as the steps. So they make no arrays. And they share few long arrays rather than many short
ones, since each one passed costs seven words a call, and compile time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import inlined, leaf

KEYS = 2  # places of `keys` before the first key: the number of entries, and of marked keys


class Delta(NamedTuple):
    """A sparse vector; ``slot`` says where a key stands among the entries, for those that may come again."""

    slot: np.ndarray  # int32 [weights], -1 where absent
    keys: np.ndarray  # int64 [2 + 2 weights]: counts, the key of each entry, the keys that have a slot
    values: np.ndarray  # float64 [weights]


def empty_delta(weights: int) -> Delta:
    """A vector over ``weights`` keys without entries."""
    return Delta(np.full(weights, -1, dtype=np.int32), np.zeros(KEYS + 2 * weights, dtype=np.int64), np.zeros(weights))


@inlined
def clear(delta):
    """Removes all entries; O(entries)."""
    first = KEYS + len(delta.slot)
    for place in range(first, first + delta.keys[1]):
        delta.slot[delta.keys[place]] = -1
    delta.keys[0] = 0
    delta.keys[1] = 0


@inlined
def add(delta, key, value):
    """Adds ``value`` at ``key``."""
    place = delta.slot[key]
    if place >= 0:
        delta.values[place] += value
        return
    entries, marked = delta.keys[0], delta.keys[1]
    delta.slot[key] = entries
    delta.keys[KEYS + entries] = key
    delta.values[entries] = value
    delta.keys[KEYS + len(delta.slot) + marked] = key
    delta.keys[0] = entries + 1
    delta.keys[1] = marked + 1


@inlined
def append(delta, key, value):
    """:func:`add` for a key that is known not to come twice, which saves a look at the slots."""
    place = delta.keys[0]
    delta.keys[KEYS + place] = key
    delta.values[place] = value
    delta.keys[0] = place + 1


@inlined
def dot(delta, weights):
    """The product with ``weights``, in the order of the entries."""
    total = 0.0
    for place in range(delta.keys[0]):
        total += weights[delta.keys[KEYS + place]] * delta.values[place]
    return total


@inlined
def squared_norm(delta):
    """The sum of squares, in the order of the entries."""
    total = 0.0
    for place in range(delta.keys[0]):
        total += delta.values[place] * delta.values[place]
    return total


@leaf
def accumulate(delta, other, sign):
    """Adds ``sign`` times ``other`` to ``delta``."""
    for place in range(other.keys[0]):
        add(delta, other.keys[KEYS + place], sign * other.values[place])
