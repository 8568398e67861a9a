"""Compiled pruning: which arcs of a sentence a model gets to see.

In: tags, longest lengths, probabilities. Out: arcs of many sentences in a row, sorted by modifier, then head.
Stage: below numbers.
"""

from __future__ import annotations

import numpy as np

from loopwise.apps.parser.features.templates import COARSE
from loopwise.compiled.arrays import copied, copy_into, filled, largest, zeros
from loopwise.compiled.decorators import callee, kernel

FREE = -1  # a word whose head is not given


@callee
def within(longest, head_tag, mod_tag, head, mod):
    """Whether an arc is no longer than any seen with these tags; arcs of the root have no length."""
    side = 1 if head < mod else 0
    return (1 if head == 0 else abs(head - mod)) <= longest[head_tag, mod_tag, side]


@callee
def candidate_arcs(tokens, column, n, longest, given):
    """Arcs within the longest lengths; the chain from each word to the next is always there, so that a tree is left.

    A word whose head is ``given`` keeps that one alone; then no other arc of the sentence is cut, as the chain may be.
    """
    partial = False
    for word in range(1, n + 1):
        partial = partial or given[column + word] != FREE
    heads, mods = np.empty(n * n, np.int32), np.empty(n * n, np.int32)
    count, coarse = 0, tokens[COARSE]
    for mod in range(1, n + 1):
        known = given[column + mod]
        for head in range(n + 1):
            if head == mod or (known != FREE and known != head):
                continue
            near = partial or head == mod - 1
            if near or within(longest, coarse[column + head], coarse[column + mod], head, mod):
                heads[count], mods[count] = head, mod
                count += 1
    return heads[:count], mods[:count]


@kernel
def learn_lengths(tokens, token_start, gold_heads, longest):
    """Raises ``longest[head tag, modifier tag, side]`` to the lengths of the gold arcs."""
    coarse = tokens[COARSE]
    for sentence in range(len(token_start) - 1):
        column = token_start[sentence] + 1
        for mod in range(1, token_start[sentence + 1] - token_start[sentence] - 2):
            head = gold_heads[column + mod]
            if head >= 0:
                side, length = (1 if head < mod else 0), (1 if head == 0 else abs(head - mod))
                here = longest[coarse[column + head], coarse[column + mod]]
                here[side] = max(here[side], length)


@kernel
def list_candidates(tokens, token_start, chosen, longest, given):
    """:func:`candidate_arcs` of the sentences ``chosen``: ``start, heads, mods``."""
    start, bound = filled(len(chosen) + 1, 0), 0
    for j in range(len(chosen)):
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        bound += n * n
    heads, mods = np.empty(bound, np.int32), np.empty(bound, np.int32)
    for j in range(len(chosen)):
        first = token_start[chosen[j]]
        h, m = candidate_arcs(tokens, first + 1, token_start[chosen[j] + 1] - first - 3, longest, given)
        copy_into(heads[start[j] :], h)
        copy_into(mods[start[j] :], m)
        start[j + 1] = start[j] + len(h)
    return start, copied(heads, start[-1]), copied(mods, start[-1])


@callee
def rank_of(values, place, begin, end):
    """How many of the values ``begin`` to ``end`` come before that at ``place``: larger, or equal and earlier."""
    before, mine = 0, values[place]
    for other in range(begin, end):
        before += values[other] > mine or (values[other] == mine and other < place)
    return before


@kernel
def choose_arcs(start, heads, mods, probability, lengths, parse, possible, threshold, most):
    """Which arcs stay: at least ``threshold`` times as probable as the word's best head, among its ``most`` best, or in
    the ``parse`` (heads of all words in a row); none of sentences that are not ``possible``."""
    keep, at = np.zeros(len(heads), np.bool_), 0
    for j in range(len(lengths)):
        begin = start[j]
        while begin < start[j + 1] and possible[j]:
            end = begin
            while end < start[j + 1] and mods[end] == mods[begin]:
                end += 1
            least = threshold * largest(probability[begin:end])
            for arc in range(begin, end):
                ranked = rank_of(probability, arc, begin, end) < most and probability[arc] >= least
                keep[arc] = ranked or parse[at + mods[arc] - 1] == heads[arc]
            begin = end
        at += lengths[j]
    return keep


@kernel
def wrong_kind(token_start, heads, projective, single_root):
    """Which sentences have a tree of another kind: arcs that cross, or several roots. O(n^2) each."""
    wrong = np.zeros(len(token_start) - 1, np.bool_)
    for sentence in range(len(wrong)):
        column = token_start[sentence] + 1
        n, roots = token_start[sentence + 1] - column - 2, 0
        for mod in range(1, n + 1):
            head = heads[column + mod]
            roots += head == 0
            low, high = min(head, mod), max(head, mod)
            for other in range(low + 1, high if projective else low):
                beyond = heads[column + other]
                if beyond < low or beyond > high:
                    wrong[sentence] = True
        if single_root and roots > 1:
            wrong[sentence] = True
    return wrong


@kernel
def lifted_arcs(token_start, chosen, gold_heads):
    """All arcs of the sentences ``chosen``, scored: ``start, heads, mods, scores``.

    1 for a gold arc, and a little for ancestors of the gold head, nearer ones first, so that the best tree of another
    kind lifts what it must give up as little as can be.
    """
    start = filled(len(chosen) + 1, 0)
    for j in range(len(chosen)):
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        start[j + 1] = start[j] + n * n
    heads, mods = np.empty(start[-1], np.int32), np.empty(start[-1], np.int32)
    scores, arc = zeros(start[-1]), 0
    for j in range(len(chosen)):
        column = token_start[chosen[j]] + 1
        n = token_start[chosen[j] + 1] - column - 2
        for mod in range(1, n + 1):
            first = arc
            for head in range(n + 1):
                if head != mod:
                    heads[arc], mods[arc] = head, mod
                    arc += 1
            head, lifts = gold_heads[column + mod], 0
            while head >= 0 and lifts < n:
                scores[first + head - (1 if head > mod else 0)] = 1.0 if lifts == 0 else 1e-4 / lifts
                lifts += 1
                head = gold_heads[column + head] if head > 0 else -1
    return start, heads, mods, scores
