"""Compiled enumeration of candidate pairs: within blocks, and close by in large ones.

In: entries (key, member) sorted by key, where each block of equal keys begins. Out: pairs. Below the stages.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel


@callee
def _reach(size, place, most, window):
    """How many of those after the member at ``place`` of a block it is paired with."""
    return min(size - place - 1, size if size <= most else window)


@kernel
def count_pairs(starts, most, window):
    """Pairs within blocks: all in one of at most ``most`` members, else each with the next ``window``."""
    total = 0
    for block in range(len(starts) - 1):
        size = starts[block + 1] - starts[block]
        for place in range(size):
            total += _reach(size, place, most, window)
    return total


@kernel
def list_pairs(starts, members, most, window, side, pairs):
    """The pairs as ``low * len(side) + high``, in ``pairs``; how many. Pairs of one ``side`` are left out unless all
    sides are -1."""
    records, count = len(side), 0
    for block in range(len(starts) - 1):
        size = starts[block + 1] - starts[block]
        for place in range(size):
            one = members[starts[block] + place]
            for there in range(place + 1, place + 1 + _reach(size, place, most, window)):
                other = members[starts[block] + there]
                if one != other and (side[one] < 0 or side[one] != side[other]):
                    pairs[count] = min(one, other) * records + max(one, other)
                    count += 1
    return count


@kernel
def min_hashes(counts, keys, seeds, out):
    """The smallest mixed key of each row under each seed (MinHash, Broder 1997); ``out`` uint64 [rows, seeds]."""
    for row in range(len(counts) - 1):
        for place in range(len(seeds)):
            least = np.uint64(0xFFFFFFFFFFFFFFFF)
            for entry in range(counts[row], counts[row + 1]):
                mixed = (keys[entry] ^ seeds[place]) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(29))
                least = min(least, mixed)
            out[row, place] = least
