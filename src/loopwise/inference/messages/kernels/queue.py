"""A queue of numbered items whose keys grow until they are served: in buckets, two for each power of two.

In: keys, as many times what is worth being served. Out: which item is next: of the highest bucket the one that has been
in it longest. Items with keys of at most 1 are not in the queue. To move an item takes a few writes, however many there
are; of a heap, every key that changes would move others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar

BUCKETS = 160  # the last one has all keys above 2^79
_ONE = 1023 << 1  # the exponent of 1 and the first bit after it, as they stand in a number of 64 bits


class Queue(NamedTuple):
    """Rings of items, each with a mark of its own, which stands for its bucket: marks are numbered after the items."""

    keys: Any  # float64 [items]
    bits: Any  # the same memory as integers
    after: Any  # int32 [items + BUCKETS] the next one in the ring
    before: Any
    home: Any  # int16 [items] the bucket of each, -1 for none
    top: Any  # [1] no item is in a higher bucket


@callee
def new_queue(items):
    """A queue of so many items, all with key 0."""
    keys, ring = np.zeros(items), np.arange(items + BUCKETS).astype(np.int32)
    return Queue(
        keys, keys.view(np.int64), ring, ring.copy(), np.full(items, -1, dtype=np.int16), np.full(1, -1, dtype=np.int64)
    )


@scalar
def set_key(queue, item, key):
    """Gives ``item`` of a queue another key; in another bucket it goes last."""
    after, before, home = queue.after, queue.before, queue.home
    queue.keys[item] = key
    place, old = np.int64(-1), np.int64(home[item])
    if key > 1.0:
        place = min((queue.bits[item] >> 51) - _ONE, BUCKETS - 1)
    if place == old:
        return
    if old >= 0:
        after[before[item]] = after[item]
        before[after[item]] = before[item]
    home[item] = place
    if place >= 0:
        mark = home.shape[0] + place
        last = before[mark]
        after[last], before[item] = item, last
        after[item], before[mark] = mark, item
        queue.top[0] = max(queue.top[0], place)


@scalar
def first_item(queue):
    """The item that is next; -1 if there is none."""
    after, items, place = queue.after, queue.home.shape[0], queue.top[0]
    while place >= 0 and after[items + place] == items + place:
        place -= 1
    queue.top[0] = place
    return np.int64(after[items + place]) if place >= 0 else np.int64(-1)
