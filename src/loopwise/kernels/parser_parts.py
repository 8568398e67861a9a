"""Compiled lists of what a sentence's model is made of, with the features of each part.

In: the arcs left of each sentence. Out: pairs of arcs, and the weights that every arc and pair reads; or, when parsing,
their scores at once. Stage: below numbers.

Arcs of a sentence are sorted by modifier, then head; pairs name them by their number in the sentence. A *chunk* is some
sentences in a row: ``base[j]`` is where the parts of its sentence j begin, first the arcs, then the pairs; part p reads
the weights ``index[start[p]:start[p + 1]]``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from loopwise.kernels.comid import pay
from loopwise.kernels.parser_features import (
    FIXED,
    FULL,
    PAIR_FEATURES,
    RICH,
    RICH_PAIR_FEATURES,
    arc_features,
    pair_features,
)
from loopwise.kernels.prefetch import AHEAD, prefetch

# Which pairs there are, and which are possible, as bits of `structure`.
GRANDPARENTS, SIBLINGS, PROJECTIVE, SINGLE_ROOT = 1, 2, 4, 8


@njit(cache=True, nogil=True)
def arcs_by_head(n, heads):
    """``order[start[h]:start[h + 1]]``: the arcs that leave word h, by modifier."""
    start = np.zeros(n + 2, np.int64)
    for arc in range(len(heads)):
        start[heads[arc] + 1] += 1
    for head in range(n + 1):
        start[head + 1] += start[head]
    order, free = np.empty(len(heads), np.int64), start[:-1].copy()
    for arc in range(len(heads)):
        order[free[heads[arc]]] = arc
        free[heads[arc]] += 1
    return start, order


@njit(cache=True, nogil=True)
def arcs_by_modifier(n, mods):
    """Arcs ``start[m]`` to ``start[m + 1]`` enter word m; there are n + 2 entries."""
    start = np.zeros(n + 2, np.int64)
    for arc in range(len(mods)):
        start[mods[arc] + 1] += 1
    for word in range(n + 1):
        start[word + 1] += start[word]
    return start


@njit(cache=True, nogil=True)
def possible_grandparent(g, h, m, structure):
    """Whether g -> h -> m can be in a tree: no cycle, and nothing crosses in a projective one."""
    if g == m:
        return False
    return not (structure & PROJECTIVE and min(h, m) < g < max(h, m))


@njit(cache=True, nogil=True)
def list_grandparents(n, heads, mods, structure, first, second):
    """Pairs (g -> h, h -> m); only counts them where ``first`` is empty."""
    start, order = arcs_by_head(n, heads)
    count, wanted = 0, len(first) > 0
    for arc in range(len(heads)):
        g, h = heads[arc], mods[arc]
        for place in range(start[h], start[h + 1]):
            if possible_grandparent(g, h, mods[order[place]], structure):
                if wanted:
                    first[count], second[count] = arc, order[place]
                count += 1
    return count


@njit(cache=True, nogil=True)
def list_siblings(n, heads, structure, first, second):
    """Pairs (h -> m, h -> s) with m before s. The root has but one child where trees have a single root."""
    start, order = arcs_by_head(n, heads)
    count, wanted = 0, len(first) > 0
    for head in range(1 if structure & SINGLE_ROOT else 0, n + 1):
        for left in range(start[head], start[head + 1]):
            for right in range(left + 1, start[head + 1]):
                if wanted:
                    first[count], second[count] = order[left], order[right]
                count += 1
    return count


@njit(cache=True, nogil=True)
def list_pairs(n, heads, mods, structure):
    """All pairs ``first``, ``second`` of a sentence, and how many of them, the first, are grandparents."""
    nothing = np.empty(0, np.int64)
    grandparents = list_grandparents(n, heads, mods, structure, nothing, nothing) if structure & GRANDPARENTS else 0
    siblings = list_siblings(n, heads, structure, nothing, nothing) if structure & SIBLINGS else 0
    first, second = np.empty(grandparents + siblings, np.int64), np.empty(grandparents + siblings, np.int64)
    if grandparents:
        list_grandparents(n, heads, mods, structure, first[:grandparents], second[:grandparents])
    if siblings:
        list_siblings(n, heads, structure, first[grandparents:], second[grandparents:])
    return first, second, grandparents


@njit(cache=True, nogil=True)
def feature_bound(heads, mods, pairs, flags, tags):
    """At least as many features as the parts of a sentence have."""
    total = pairs * (RICH_PAIR_FEATURES if flags & RICH else PAIR_FEATURES)
    for arc in range(len(heads)):
        between = min(abs(heads[arc] - mods[arc]), tags) if flags & FULL else 0
        total += 2 * (FIXED + 2 * between)
    return total


@njit(cache=True, nogil=True)
def scratch(tags):
    """Room for the features of one part."""
    most = FIXED + 2 * tags
    seen, packed, names = np.zeros((2, tags), np.int64), np.empty(most, np.uint64), np.empty(most, np.uint64)
    return seen, packed, names, np.empty(2 * most, np.int64)


@njit(cache=True, nogil=True)
def build_chunk(tokens, token_start, chosen, arc_start, heads, mods, structure, flags, size, tags):
    """Pairs and features of the sentences ``chosen``: ``base, first, second, grandparents, start, index``.

    O(features), about 2 ns each: cheaper than keeping them.
    """
    sentences = len(chosen)
    base, pair_base = np.zeros(sentences + 1, np.int64), np.zeros(sentences + 1, np.int64)
    grandparents, bound = np.zeros(sentences, np.int64), 0
    nothing = np.empty(0, np.int64)
    for j in range(sentences):
        begin, end = arc_start[chosen[j]], arc_start[chosen[j] + 1]
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        mine, count = (heads[begin:end], mods[begin:end]), 0
        if structure & GRANDPARENTS:
            grandparents[j] = list_grandparents(n, mine[0], mine[1], structure, nothing, nothing)
            count = grandparents[j]
        if structure & SIBLINGS:
            count += list_siblings(n, mine[0], structure, nothing, nothing)
        pair_base[j + 1] = pair_base[j] + count
        base[j + 1] = base[j] + (end - begin) + count
        bound += feature_bound(mine[0], mine[1], count, flags, tags)
    first, second = np.empty(pair_base[-1], np.int64), np.empty(pair_base[-1], np.int64)
    start, index = np.zeros(base[-1] + 1, np.int64), np.empty(bound, np.int32)
    seen, packed, names, places = scratch(tags)
    at = 0
    for j in range(sentences):
        begin, end = arc_start[chosen[j]], arc_start[chosen[j] + 1]
        column = token_start[chosen[j]] + 1  # of the root
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        h, m, part = heads[begin:end], mods[begin:end], base[j]
        for arc in range(end - begin):
            count = arc_features(tokens, column + h[arc], column + m[arc], flags, size, seen, packed, names, places)
            index[at : at + count] = places[:count]
            at += count
            part += 1
            start[part] = at
        one, two, split = list_pairs(n, h, m, structure)
        first[pair_base[j] : pair_base[j + 1]], second[pair_base[j] : pair_base[j + 1]] = one, two
        for pair in range(len(one)):
            a, b, c = column + h[one[pair]], column + m[one[pair]], column + m[two[pair]]
            count = pair_features(tokens, pair < split, a, b, c, flags, size, packed, names, places)
            index[at : at + count] = places[:count]
            at += count
            part += 1
            start[part] = at
    return base, pair_base, first, second, grandparents, start, index[:at]


@njit(cache=True, nogil=True)
def score_parts(tokens, column, heads, mods, first, second, grandparents, flags, weights, room, unary, pairs):
    """Scores of one sentence's arcs and pairs, features never kept. ``room``: what :func:`scratch` gave."""
    seen, packed, names, places = room
    size = len(weights)
    for arc in range(len(heads)):
        h, m = column + heads[arc], column + mods[arc]
        count, total = arc_features(tokens, h, m, flags, size, seen, packed, names, places), 0.0
        for place in range(count):
            total += weights[places[place]]
        unary[arc] = total
    for pair in range(len(first)):
        a, b, c = column + heads[first[pair]], column + mods[first[pair]], column + mods[second[pair]]
        count, total = pair_features(tokens, pair < grandparents, a, b, c, flags, size, packed, names, places), 0.0
        for place in range(count):
            total += weights[places[place]]
        pairs[pair] = total


@njit(nogil=True, error_model="numpy", inline="always")
def range_of(row, size, ranges):
    """Which of ``ranges`` equal parts of a table a row is in."""
    return np.int64(row * (ranges / size))


@njit(cache=True, nogil=True, error_model="numpy")
def split_rows(index, start, size, ranges):
    """The features of each range of the table, in their order: ``rows``, range after range, from ``first[r]`` on; and
    where those of each part begin among them, ``starts[r, part]``. A range is dealt with by one thread alone."""
    counts, first = np.zeros(ranges, np.int64), np.zeros(ranges + 1, np.int64)
    for place in range(len(index)):
        counts[range_of(index[place], size, ranges)] += 1
    first[1:] = np.cumsum(counts)
    rows, starts, at = np.empty(len(index), np.int32), np.zeros((ranges, len(start)), np.int64), first[:-1].copy()
    for part in range(len(start) - 1):
        for place in range(start[part], start[part + 1]):
            of = range_of(index[place], size, ranges)
            rows[at[of]] = index[place]
            at[of] += 1
        starts[:, part + 1] = at - first[:-1]
    return rows, first, starts


@njit(cache=True, nogil=True, error_model="numpy")
def join_positions(index, size, positions, first):
    """Positions of the features in their own order, from those that stand range after range."""
    at, joined = first[:-1].copy(), np.empty(len(index), np.int32)
    for place in range(len(index)):
        of = range_of(index[place], size, len(first) - 1)
        joined[place] = positions[at[of]]
        at[of] += 1
    return joined


@njit(cache=True, nogil=True, error_model="numpy")
def find_rows(index, offset, table, steps, rate, delta, l2, found, count, position, out):
    """Rows of ``index`` that are not among ``found[:count]`` are added; ``position[k]`` says where ``index[k]`` stands,
    plus ``offset``, and ``out`` holds its weight there, regularisation paid. The new count.

    ``table``: weights, squares, steps of the last update, marks. A mark says where among ``found`` a row may be;
    whether it is there is seen from ``found`` itself (a sparse set: nothing has to be cleared).
    """
    weights, squares, last, marks = table
    for place in range(len(index)):
        if place + AHEAD < len(index):
            prefetch(marks, index[place + AHEAD])
        row = np.int64(index[place])
        slot = np.int64(marks[row])
        if slot >= count or found[slot] != row:
            slot = np.int64(count)
            marks[row], found[slot] = slot, row
            count += 1
            pay(weights, squares, last, row, steps, rate, delta, 0.0, l2)
            out[offset + slot] = weights[row, 0]
        position[place] = offset + slot
    return count


@njit(cache=True, nogil=True)
def scatter_parts(adjoint, start, position, offset, sums):
    """Adds each part's adjoint to the sums of its weights, the first of which stands at ``offset``."""
    for part in range(len(adjoint)):
        value = adjoint[part]
        if value != 0.0:
            for place in range(start[part], start[part + 1]):
                sums[position[place] - offset, 0] += value
