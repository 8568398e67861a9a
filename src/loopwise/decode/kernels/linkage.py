"""Compiled clustering of scored pairs: connected components, and average linkage within them.

In: pairs of records with scores. Out: the cluster of each record. Below the stages.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel


@callee
def _root(parent, item):
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


@kernel
def components(size, one, other, keep):
    """The smallest member of the connected component of each of ``size`` items, by the pairs with ``keep``."""
    parent = np.arange(size)
    for pair in range(len(one)):
        if keep[pair]:
            first, second = _root(parent, one[pair]), _root(parent, other[pair])
            if first != second:
                parent[max(first, second)] = min(first, second)
    for item in range(size):
        parent[item] = _root(parent, item)
    return parent


@kernel
def capped_components(size, one, other, order, most):
    """Components that pairs make when taken in ``order``, none of more than ``most`` items: a pair that would make a
    larger one is passed over. The smallest member of each item's component."""
    parent, count = np.arange(size), np.ones(size, np.int64)
    for place in range(len(order)):
        first, second = _root(parent, one[order[place]]), _root(parent, other[order[place]])
        low, high = min(first, second), max(first, second)
        if low != high and count[low] + count[high] <= most:
            parent[high] = low
            count[low] += count[high]
    for item in range(size):
        parent[item] = _root(parent, item)
    return parent


@callee
def _best_of(total, count, alive, row, size, missing):
    """The cluster that joins best with ``row``, and the mean score of the pairs between them."""
    best, score = -1, -np.inf
    for column in range(size):
        if column != row and alive[column] > 0 and count[row, column] > 0:
            pairs = alive[row] * alive[column]
            mean = (total[row, column] + missing * (pairs - count[row, column])) / pairs
            if mean > score:
                best, score = column, mean
    return best, score


@kernel
def average_linkage(size, one, other, score, threshold, missing, labels):
    """Joins the two clusters whose pairs have the highest mean score, while it is at least ``threshold``.

    Pairs without a score count as ``missing``; clusters without any scored pair between them are not joined. Fills
    ``labels`` (numbered from 0 in the order of their first members). Memory O(size²), time O(size²) to O(size³).
    """
    total, count = np.zeros((size, size), np.float64), np.zeros((size, size), np.int64)
    for pair in range(len(one)):
        total[one[pair], other[pair]] = total[other[pair], one[pair]] = score[pair]
        count[one[pair], other[pair]] = count[other[pair], one[pair]] = 1
    alive = np.ones(size, np.int64)
    nearest, height = np.zeros(size, np.int64), np.zeros(size, np.float64)
    for row in range(size):
        labels[row] = row
        nearest[row], height[row] = _best_of(total, count, alive, row, size, missing)
    while True:
        low = -1
        for row in range(size):
            if alive[row] > 0 and nearest[row] >= 0 and (low < 0 or height[row] > height[low]):
                low = row
        if low < 0 or height[low] < threshold:
            break
        high = nearest[low]
        low, high = min(low, high), max(low, high)
        for item in range(size):
            if labels[item] == high:
                labels[item] = low
            total[low, item] += total[high, item]
            total[item, low] = total[low, item]
            count[low, item] += count[high, item]
            count[item, low] = count[low, item]
        alive[low] += alive[high]
        alive[high] = 0
        nearest[low], height[low] = _best_of(total, count, alive, low, size, missing)
        for row in range(size):
            if alive[row] > 0 and row != low:
                if nearest[row] == low or nearest[row] == high:
                    nearest[row], height[row] = _best_of(total, count, alive, row, size, missing)
                elif count[row, low] > 0:
                    pairs = alive[row] * alive[low]
                    mean = (total[row, low] + missing * (pairs - count[row, low])) / pairs
                    if mean > height[row]:
                        nearest[row], height[row] = low, mean


@kernel
def link_components(starts, pair_starts, one, other, score, threshold, missing, labels):
    """:func:`average_linkage` of each component: its members are numbered from 0 in ``one`` and ``other``."""
    for component in range(len(starts) - 1):
        first, end = starts[component], starts[component + 1]
        begin, stop = pair_starts[component], pair_starts[component + 1]
        average_linkage(
            end - first,
            one[begin:stop],
            other[begin:stop],
            score[begin:stop],
            threshold,
            missing,
            labels[first:end],
        )


@kernel
def match_one_to_one(order, one, other, taken, keep):
    """Takes pairs in ``order`` whose two records are both free: a greedy matching."""
    for place in range(len(order)):
        pair = order[place]
        keep[pair] = not (taken[one[pair]] or taken[other[pair]])
        if keep[pair]:
            taken[one[pair]] = taken[other[pair]] = True
