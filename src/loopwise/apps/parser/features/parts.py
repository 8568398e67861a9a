"""Compiled lists of what a sentence's model is made of, with the features of each part.

In: the arcs left of each sentence. Out: pairs of arcs, and the weights that every arc and pair reads; or, when parsing,
their scores at once. Stage: below numbers.

Arcs of a sentence are sorted by modifier, then head; pairs name them by their number in the sentence. The parts of a
chunk of sentences are the arcs of its first sentence, then its pairs, then those of the second, and so on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.apps.parser.features.templates import (
    FIXED,
    FULL,
    PAIR_FEATURES,
    RICH,
    RICH_PAIR_FEATURES,
    arc_features,
    pair_features,
)
from loopwise.compiled.arrays import copied, copy_into, filled, floats, integers
from loopwise.compiled.decorators import callee, kernel

# Which pairs there are, and which are possible, as bits of `structure`.
GRANDPARENTS, SIBLINGS, PROJECTIVE, SINGLE_ROOT = 1, 2, 4, 8


class FactorParts(NamedTuple):
    """Arcs and pairs of a chunk of sentences; part p reads the weights ``index[start[p]:start[p + 1]]``."""

    edge_start: Any  # [sentences + 1]
    heads: Any  # [arcs]
    mods: Any
    pair_start: Any  # [sentences + 1]
    first: Any  # [pairs] arcs, numbered within their sentence
    second: Any
    start: Any  # [parts + 1]
    index: Any  # [features]


@callee
def arcs_by_head(n, heads):
    """``order[start[h]:start[h + 1]]``: the arcs that leave word h, by modifier."""
    start = filled(n + 2, 0)
    for arc in range(len(heads)):
        start[heads[arc] + 1] += 1
    for head in range(n + 1):
        start[head + 1] += start[head]
    order, free = integers(len(heads)), copied(start, n + 1)
    for arc in range(len(heads)):
        order[free[heads[arc]]] = arc
        free[heads[arc]] += 1
    return start, order


@callee
def possible_grandparent(g, h, m, structure):
    """Whether g -> h -> m can be in a tree: no cycle, and nothing crosses in a projective one."""
    if g == m:
        return False
    return not (structure & PROJECTIVE and min(h, m) < g < max(h, m))


@callee
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


@callee
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


@kernel
def list_pairs(n, heads, mods, structure):
    """All pairs ``first``, ``second`` of a sentence, and how many of them, the first, are grandparents."""
    nothing = integers(0)
    grandparents = list_grandparents(n, heads, mods, structure, nothing, nothing) if structure & GRANDPARENTS else 0
    siblings = list_siblings(n, heads, structure, nothing, nothing) if structure & SIBLINGS else 0
    first, second = integers(grandparents + siblings), integers(grandparents + siblings)
    if grandparents:
        list_grandparents(n, heads, mods, structure, first[:grandparents], second[:grandparents])
    if siblings:
        list_siblings(n, heads, structure, first[grandparents:], second[grandparents:])
    return first, second, grandparents


@callee
def feature_bound(heads, mods, pairs, flags, tags):
    """At least as many features as the parts of a sentence have."""
    total = pairs * (RICH_PAIR_FEATURES if flags & RICH else PAIR_FEATURES)
    for arc in range(len(heads)):
        between = min(abs(heads[arc] - mods[arc]), tags) if flags & FULL else 0
        total += 2 * (FIXED + 2 * between)
    return total


@kernel
def scratch(tags):
    """Room for the features of one part."""
    most = FIXED + 2 * tags
    seen, packed, names = np.zeros((2, tags), np.int64), np.empty(most, np.uint64), np.empty(most, np.uint64)
    return seen, packed, names, integers(2 * most)


@callee
def count_pairs(token_start, chosen, arc_start, heads, mods, structure):
    """Where the pairs of the sentences ``chosen`` begin, one after another."""
    start, nothing = filled(len(chosen) + 1, 0), integers(0)
    for j in range(len(chosen)):
        begin, end = arc_start[chosen[j]], arc_start[chosen[j] + 1]
        n, count = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3, 0
        if structure & GRANDPARENTS:
            count = list_grandparents(n, heads[begin:end], mods[begin:end], structure, nothing, nothing)
        if structure & SIBLINGS:
            count += list_siblings(n, heads[begin:end], structure, nothing, nothing)
        start[j + 1] = start[j] + count
    return start


@callee
def gather_arcs(chosen, arc_start, heads, mods):
    """The arcs of the sentences ``chosen``, one after another: ``start, heads, mods``."""
    start = filled(len(chosen) + 1, 0)
    for j in range(len(chosen)):
        start[j + 1] = start[j] + arc_start[chosen[j] + 1] - arc_start[chosen[j]]
    h, m = np.empty(start[-1], heads.dtype), np.empty(start[-1], mods.dtype)
    for j in range(len(chosen)):
        begin, end = arc_start[chosen[j]], arc_start[chosen[j] + 1]
        copy_into(h[start[j] :], heads[begin:end])
        copy_into(m[start[j] :], mods[begin:end])
    return start, h, m


@kernel
def build_chunk(tokens, token_start, chosen, arc_start, heads, mods, structure, flags, size, tags):
    """Arcs, pairs and features of the sentences ``chosen``: :class:`FactorParts`. O(features): less than keeping
    them."""
    pair_start = count_pairs(token_start, chosen, arc_start, heads, mods, structure)
    edge_start, all_heads, all_mods = gather_arcs(chosen, arc_start, heads, mods)
    bound = 0
    for j in range(len(chosen)):
        begin, end, pairs = edge_start[j], edge_start[j + 1], pair_start[j + 1] - pair_start[j]
        bound += feature_bound(all_heads[begin:end], all_mods[begin:end], pairs, flags, tags)
    first, second = integers(pair_start[-1]), integers(pair_start[-1])
    start, index = filled(edge_start[-1] + pair_start[-1] + 1, 0), np.empty(bound, np.int32)
    seen, packed, names, places = scratch(tags)
    at = part = 0
    for j in range(len(chosen)):
        column = token_start[chosen[j]] + 1  # of the root
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        h, m = all_heads[edge_start[j] : edge_start[j + 1]], all_mods[edge_start[j] : edge_start[j + 1]]
        for arc in range(len(h)):
            count = arc_features(tokens, column + h[arc], column + m[arc], flags, size, seen, packed, names, places)
            copy_into(index[at:], places[:count])
            at += count
            part += 1
            start[part] = at
        one, two, split = list_pairs(n, h, m, structure)
        copy_into(first[pair_start[j] :], one)
        copy_into(second[pair_start[j] :], two)
        for pair in range(len(one)):
            a, b, c = column + h[one[pair]], column + m[one[pair]], column + m[two[pair]]
            count = pair_features(tokens, pair < split, a, b, c, flags, size, packed, names, places)
            copy_into(index[at:], places[:count])
            at += count
            part += 1
            start[part] = at
    return FactorParts(edge_start, all_heads, all_mods, pair_start, first, second, start, index[:at])


@kernel
def split_parts(parts, values):
    """Values of parts as those of all arcs and those of all pairs."""
    unary, pairs, part = floats(parts.edge_start[-1]), floats(parts.pair_start[-1]), 0
    for j in range(len(parts.edge_start) - 1):
        for kind in range(2):
            start, found = (parts.pair_start, pairs) if kind else (parts.edge_start, unary)
            count = start[j + 1] - start[j]
            copy_into(found[start[j] :], values[part : part + count])
            part += count
    return unary, pairs


@kernel
def write_adjoints(parts, of_unary, of_pairs, scale, clip):
    """Adjoints of arcs and pairs in the order of their parts, times ``scale``; the norm of those of one sentence is at
    most ``clip`` before."""
    adjoint, part = floats(len(of_unary) + len(of_pairs)), 0
    for j in range(len(parts.edge_start) - 1):
        begin = part
        for kind in range(2):
            start, values = (parts.pair_start, of_pairs) if kind else (parts.edge_start, of_unary)
            count = start[j + 1] - start[j]
            copy_into(adjoint[part:], values[start[j] : start[j + 1]])
            part += count
        square = 0.0
        for place in range(begin, part):
            square += adjoint[place] * adjoint[place]
        norm = math.sqrt(square)
        factor = scale * (clip / norm if norm > clip else 1.0)
        for place in range(begin, part):
            adjoint[place] *= factor
    return adjoint


class ScoredBy(NamedTuple):
    """What scores are made of."""

    tokens: Any
    flags: Any
    weights: Any
    room: Any  # what :func:`scratch` gave


@kernel
def score_chunk(tokens, token_start, chosen, arc_start, heads, mods, structure, flags, weights, tags):
    """Arcs and pairs of the sentences ``chosen`` with their scores, features never kept: ``edge_start, heads, mods,
    pair_start, first, second, unary, scores``."""
    pair_start = count_pairs(token_start, chosen, arc_start, heads, mods, structure)
    edge_start, all_heads, all_mods = gather_arcs(chosen, arc_start, heads, mods)
    first, second = integers(pair_start[-1]), integers(pair_start[-1])
    unary, scores = floats(edge_start[-1]), floats(pair_start[-1])
    reads = ScoredBy(tokens, flags, weights, scratch(tags))
    for j in range(len(chosen)):
        column, n = token_start[chosen[j]] + 1, token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        edges, pairs = slice(edge_start[j], edge_start[j + 1]), slice(pair_start[j], pair_start[j + 1])
        h, m = all_heads[edges], all_mods[edges]
        one, two, grandparents = list_pairs(n, h, m, structure)
        copy_into(first[pairs], one)
        copy_into(second[pairs], two)
        score_parts(reads, column, h, m, first[pairs], second[pairs], grandparents, unary[edges], scores[pairs])
    return edge_start, all_heads, all_mods, pair_start, first, second, unary, scores


@kernel
def score_arcs(tokens, token_start, chosen, edge_start, heads, mods, flags, weights, tags):
    """Scores of the arcs of the sentences ``chosen``, which stand one after another."""
    unary, nothing, none = floats(len(heads)), integers(0), floats(0)
    reads = ScoredBy(tokens, flags, weights, scratch(tags))
    for j in range(len(chosen)):
        edges, column = slice(edge_start[j], edge_start[j + 1]), token_start[chosen[j]] + 1
        score_parts(reads, column, heads[edges], mods[edges], nothing, nothing, 0, unary[edges], none)
    return unary


@callee
def score_parts(reads, column, heads, mods, first, second, grandparents, unary, pairs):
    """Scores of one sentence's arcs and pairs, features never kept."""
    tokens, flags, weights = reads.tokens, reads.flags, reads.weights
    seen, packed, names, places = reads.room
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
