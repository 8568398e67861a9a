"""A queue of numbered items by a key that changes often: the item with the largest key, the lowest of equals.

In: keys, none negative. Out: which is first. A tree whose nodes hold the largest key below them: a changed key is
carried upwards only as far as it changes a node's largest, one or two levels as a rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.kernels.arithmetic import callee, scalar

FAN = 16  # children of a node


class Queue(NamedTuple):
    """Keys of the items, then those of each level of nodes above them, each padded to whole nodes."""

    keys: Any
    bits: Any  # the same memory as integers, which are in the same order: their largest is found without branches
    starts: Any  # [levels + 1] where each level begins


@callee
def new_queue(keys):
    """A queue of all ``keys`` (float64)."""
    starts, size = [0], max(keys.shape[0], 1)
    while True:
        starts.append(starts[-1] + -(-size // FAN) * FAN)
        size = -(-size // FAN)
        if size == 1:
            break
    padded = np.full(starts[-1], -1.0)
    padded[: keys.shape[0]] = keys
    bits = padded.view(np.int64)
    for level in range(len(starts) - 2):
        for node in range((starts[level + 1] - starts[level]) // FAN):
            bits[starts[level + 1] + node] = _largest(bits, starts[level] + node * FAN)
    return Queue(padded, bits, np.array(starts))


@scalar
def _largest(bits, first):
    best = bits[first]
    for child in range(first + 1, first + FAN):
        best = max(best, bits[child])
    return best


@scalar
def set_key(keys, bits, starts, item, key):
    """Gives ``item`` of a queue another key. Takes the arrays of the queue: taking them out in a loop would count
    references."""
    keys[item] = key
    node = item
    for level in range(starts.shape[0] - 2):
        node = node >> 4
        best = _largest(bits, starts[level] + node * FAN)
        above = starts[level + 1] + node
        if bits[above] == best:
            break
        bits[above] = best


@scalar
def first_item(bits, starts):
    """The item with the largest key."""
    node = 0
    for back in range(starts.shape[0] - 1):
        first = starts[starts.shape[0] - 2 - back] + node * FAN
        best = _largest(bits, first)
        place = 0
        while bits[first + place] != best:
            place += 1
        node = node * FAN + place
    return node
