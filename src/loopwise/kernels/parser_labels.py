"""Compiled labels of arcs: features of each arc with each relation its tags allow, and the choice among them.

In: arcs of a tree, the relations seen with each pair of coarse tags. Out: parts and their adjoints as in
:mod:`loopwise.kernels.parser_parts`, or relations. Stage: below numbers. A part is an arc with one relation; the arcs
of a sentence have their parts in a row.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from loopwise.kernels.parser_features import COARSE, arc_features, place_of
from loopwise.kernels.parser_parts import scratch


@njit(cache=True, nogil=True)
def allowed_range(tokens, h, m, allowed_start):
    """Where the relations of an arc's pair of coarse tags are listed: the lists are a square."""
    tags = np.int64(math.sqrt(len(allowed_start) - 1) + 0.5)
    pair = np.int64(tokens[COARSE, h]) * tags + np.int64(tokens[COARSE, m])
    return allowed_start[pair], allowed_start[pair + 1]


@njit(cache=True, nogil=True)
def build_labels(tokens, token_start, chosen, heads, allowed_start, allowed, flags, size, tags):
    """Parts of the sentences ``chosen``: ``base, word_base, words, start, index``.

    ``base[j]`` is the first part of sentence j, ``word_base[k]`` that of the k-th arc, whose modifier is in the column
    ``words[k]``.
    """
    base, arcs, parts = np.zeros(len(chosen) + 1, np.int64), 0, 0
    for j in range(len(chosen)):
        column, end = token_start[chosen[j]] + 1, token_start[chosen[j] + 1] - 1
        for m in range(column + 1, end):
            if heads[m] >= 0:
                begin, stop = allowed_range(tokens, column + heads[m], m, allowed_start)
                arcs += 1
                parts += stop - begin
        base[j + 1] = parts
    seen, packed, names, keys = scratch(tags)
    word_base, words, start = np.zeros(arcs + 1, np.int64), np.empty(arcs, np.int64), np.zeros(parts + 1, np.int64)
    index = np.empty(parts * 128, np.int32)
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
                larger[:at] = index[:at]
                index = larger
            for place in range(begin, stop):
                name = np.uint64(allowed[place] + 1)
                for number in range(count):
                    index[at] = place_of(np.uint64(keys[number]), name, size)
                    at += 1
                part += 1
                start[part] = at
            words[arc] = m
            arc += 1
            word_base[arc] = part
    return base, word_base, words, start, index[:at]


@njit(cache=True, nogil=True, error_model="numpy")
def train_labels(token_start, chosen, heads, relations, tokens, allowed_start, allowed, parts, position, weights,
                 scale, adjoint, losses):  # fmt: skip
    """Log loss of each sentence's relations (a softmax an arc), and ``scale`` times the adjoints of all parts.

    An arc whose gold relation is not among those allowed teaches nothing.
    """
    base, word_base, words, start, _ = parts
    j = 0
    losses[:] = 0.0
    for arc in range(len(words)):
        begin, end, m = word_base[arc], word_base[arc + 1], words[arc]
        while begin >= base[j + 1]:
            j += 1
        top, total, gold = -np.inf, 0.0, -1
        first, _ = allowed_range(tokens, token_start[chosen[j]] + 1 + heads[m], m, allowed_start)
        for part in range(begin, end):
            value = 0.0
            for place in range(start[part], start[part + 1]):
                value += weights[position[place]]
            adjoint[part] = value
            top = max(top, value)
            if allowed[first + part - begin] == relations[m]:
                gold = part
        for part in range(begin, end):
            total += math.exp(adjoint[part] - top)
        if gold >= 0:
            losses[j] += top + math.log(total) - adjoint[gold]
        for part in range(begin, end):
            share = math.exp(adjoint[part] - top) / total
            adjoint[part] = scale * (share - (1.0 if part == gold else 0.0)) if gold >= 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
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
