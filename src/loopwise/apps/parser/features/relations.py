"""Compiled labels of arcs: features of each arc with each relation its tags allow, and the choice among them.

In: arcs of a tree, the relations seen with each pair of coarse tags. Out: parts as in
:mod:`loopwise.apps.parser.features.parts`, or relations. Stage: below numbers. A part is an arc with one relation; the
arcs of a sentence have their parts in a row.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.apps.parser.features.parts import scratch
from loopwise.apps.parser.features.templates import COARSE, arc_features, place_of
from loopwise.compiled.arrays import copy_into, filled, integers
from loopwise.compiled.decorators import callee, kernel


@callee
def allowed_range(tokens, h, m, allowed_start):
    """Where the relations of an arc's pair of coarse tags are listed: the lists are a square."""
    tags = np.int64(math.sqrt(len(allowed_start) - 1) + 0.5)
    pair = np.int64(tokens[COARSE, h]) * tags + np.int64(tokens[COARSE, m])
    return allowed_start[pair], allowed_start[pair + 1]


@kernel
def build_labels(tokens, token_start, chosen, heads, allowed_start, allowed, flags, size, tags):
    """Parts of the sentences ``chosen``: ``arc_start, part_start, words, relations, start, index``.

    ``arc_start[j]`` is the first arc of sentence j, ``part_start[k]`` the first part of the k-th arc, whose modifier is
    in the column ``words[k]``; ``relations``: of each part.
    """
    arc_start, arcs, parts = filled(len(chosen) + 1, 0), 0, 0
    for j in range(len(chosen)):
        column, end = token_start[chosen[j]] + 1, token_start[chosen[j] + 1] - 1
        for m in range(column + 1, end):
            if heads[m] >= 0:
                begin, stop = allowed_range(tokens, column + heads[m], m, allowed_start)
                arcs += 1
                parts += stop - begin
        arc_start[j + 1] = arcs
    seen, packed, names, keys = scratch(tags)
    part_start, words, start = filled(arcs + 1, 0), integers(arcs), filled(parts + 1, 0)
    relations, index = np.empty(parts, np.int32), np.empty(parts * 128, np.int32)
    arc = part = at = 0
    for j in range(len(chosen)):
        column, end = token_start[chosen[j]] + 1, token_start[chosen[j] + 1] - 1
        for m in range(column + 1, end):
            if heads[m] < 0:
                continue
            h = column + heads[m]
            count = arc_features(tokens, h, m, flags, 0, seen, packed, names, keys)
            begin, stop = allowed_range(tokens, h, m, allowed_start)
            if at + count * (stop - begin) > len(index):
                larger = np.empty(2 * len(index) + count * (stop - begin), np.int32)
                copy_into(larger, index[:at])
                index = larger
            for place in range(begin, stop):
                name = np.uint64(allowed[place] + 1)
                relations[part] = allowed[place]
                for number in range(count):
                    index[at] = place_of(np.uint64(keys[number]), name, size)
                    at += 1
                part += 1
                start[part] = at
            words[arc] = m
            arc += 1
            part_start[arc] = part
    return arc_start, part_start, words, relations, start, index[:at]


@kernel
def best_labels(tokens, token_start, chosen, heads, allowed_start, allowed, flags, tags, weights, labels):
    """The likeliest relation of each arc, into ``labels[columns]``."""
    seen, packed, names, keys = scratch(tags)
    size = len(weights)
    for j in range(len(chosen)):
        column, end = token_start[chosen[j]] + 1, token_start[chosen[j] + 1] - 1
        for m in range(column + 1, end):
            if heads[m] < 0:
                continue
            h = column + heads[m]
            begin, stop = allowed_range(tokens, h, m, allowed_start)
            labels[m] = allowed[begin]
            if stop - begin > 1:
                count, top = arc_features(tokens, h, m, flags, 0, seen, packed, names, keys), -np.inf
                for place in range(begin, stop):
                    name, total = np.uint64(allowed[place] + 1), 0.0
                    for number in range(count):
                        total += weights[place_of(np.uint64(keys[number]), name, size)]
                    if total > top:
                        top, labels[m] = total, allowed[place]
