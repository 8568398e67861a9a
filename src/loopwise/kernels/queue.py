"""A queue of numbered items by a key that changes often: the item with the largest key, the lowest of equals.

In: keys, none negative. Out: which is first. A tree whose nodes hold the largest key below them: a changed key is
carried upwards only as far as it changes a node's largest, one or two levels as a rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar
from loopwise.kernels.arithmetic import U

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
            bits[starts[level + 1] + node] = _largest(bits, U(starts[level] + node * FAN))
    return Queue(padded, bits, np.array(starts))


@scalar
def _largest(bits, first):
    best = bits[first]
    for child in range(U(1), U(FAN)):
        best = max(best, bits[first + child])
    return best


@scalar
def set_key(keys, bits, starts, item, key):
    """Gives ``item`` of a queue another key. Takes the arrays of the queue: taking them out in a loop would count
    references. All keys of a node are looked at only if its largest was this one and fell."""
    node = U(item)
    old = bits[node]
    keys[node] = key
    new = bits[node]
    for level in range(U(starts.shape[0] - 2)):
        node = node >> U(4)
        above = U(starts[level + U(1)]) + node
        largest, best = bits[above], new
        if new < largest:
            if old != largest:
                break
            best = _largest(bits, U(starts[level]) + node * U(FAN))
        if best == largest:
            break
        old, new = largest, best
        bits[above] = best


@scalar
def first_item(bits, starts):
    """The item with the largest key."""
    levels, node = U(starts.shape[0] - 1), U(0)
    best = _largest(bits, U(starts[levels - U(1)]))
    for back in range(levels):
        first, place = U(starts[levels - U(1) - back]) + node * U(FAN), U(FAN - 1)
        for before in range(U(1), U(FAN)):  # from the last to the first, without branches
            place = U(FAN - 1) - before if bits[first + (U(FAN - 1) - before)] == best else place
        node = node * U(FAN) + place
    return np.int64(node)
