"""Learning a chain's weights from its own best paths, chain after chain: perceptron and structured SVM.

In: sparse features of tokens in compressed rows, weight tables, gold states, an order. Out: the tables, changed in
place, and what is needed for their exact average. Stage: below learning.

Weights are ``scale * table``, so that shrinking all of them is one multiplication. ``state`` holds ``(steps, scale, sum
of scales since the average began, steps since then)``; ``sums`` are such that the average over steps is
``(state[2] * table - sums) / state[3]``, exactly (a change at step t misses the t - 1 steps before it).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.graph.structured.kernels.chain_paths import best_path

STEPS, SCALE, SUMMED, AVERAGED = 0, 1, 2, 3


class GoldChains(NamedTuple):
    """Chains with their features in compressed rows, and what is known of their states."""

    start: Any  # [chains + 1]
    gold: Any  # [tokens], -1 where not known
    allowed: Any  # [tokens, K], or empty: the states that tokens of unknown gold may have
    unary: Any  # (start, feature) of the tokens
    pair: Any  # the same for steps


@callee
def token_scores(table, rows, begin, end, scale, out):
    """``out[i] = scale * (the sum of the rows of table that token begin + i has)``."""
    feature_start, feature = rows
    width = table.shape[1]
    for token in range(begin, end):
        row = token - begin
        for column in range(width):
            out[row, column] = 0.0
        for place in range(feature_start[token], feature_start[token + 1]):
            for column in range(width):
                out[row, column] += table[feature[place], column]
        for column in range(width):
            out[row, column] *= scale


@callee
def _move(table, sums, rows, token, right, wrong, change, behind):
    """Raises the weights of column ``right`` and lowers those of ``wrong`` for all features of a token."""
    feature_start, feature = rows
    for place in range(feature_start[token], feature_start[token + 1]):
        row = feature[place]
        table[row, right] += change
        table[row, wrong] -= change
        sums[row, right] += behind
        sums[row, wrong] -= behind


@callee
def _obey(unary, pair, length, rules):
    """Adds the penalties of rules to the scores of one chain."""
    first, follow, last = rules
    for label in range(len(first)):
        unary[0, label] += first[label]
        unary[length - 1, label] += last[label]
    for place in range(1, length):
        for step in range(len(follow)):
            pair[place, step] += follow[step]


@callee
def _truth(gold, begin, end, path):
    """Copies the gold states of a chain; whether all are known."""
    known = True
    for token in range(begin, end):
        path[token - begin] = gold[token]
        known &= gold[token] >= 0
    return known


@kernel
def online_epoch(order, chains, tables, sums, state, cost, strength, rules):
    """One pass over the chains in ``order``; returns wrong tokens and the sum of hinge losses.

    ``chains``: :class:`GoldChains`; ``tables`` and ``sums``: of features ``[features, K]``, and of steps
    ``[pair features, K * K]``. A step: find the best path with ``cost`` added for each wrong token, move the weights
    from its features to the right ones. ``strength`` 0: steps of 1 (perceptron); otherwise those of Pegasos for the
    objective ``strength / 2 |w|^2 + mean hinge`` (Shalev-Shwartz et al. 2011): weights shrink by 1 - 1/t, then a
    step of ``1 / (strength t)``. Where gold is not known, the best path of what is allowed is right. ``rules``:
    penalties of first states, steps and last states, or empty.
    """
    start, gold, allowed, unary_rows, pair_rows = chains
    (unary_table, pair_table), (unary_sums, pair_sums) = tables, sums
    states, longest = unary_table.shape[1], 1
    for chain in order:
        longest = max(longest, start[chain + 1] - start[chain])
    unary, pair = np.empty((longest, states)), np.empty((longest, states * states))
    held = np.empty((longest if len(allowed) > 0 else 0, states))
    room, pointer = np.empty((2, states)), np.empty((longest, states), np.int32)
    path, right_path = np.empty(longest, np.int64), np.empty(longest, np.int64)
    wrong, hinge = 0, 0.0
    for chain in order:
        begin, end = start[chain], start[chain + 1]
        length = end - begin
        state[STEPS] += 1.0
        if strength > 0.0 and state[STEPS] > 1.0:
            state[SCALE] *= 1.0 - 1.0 / state[STEPS]
        if length > 0:
            token_scores(unary_table, unary_rows, begin, end, state[SCALE], unary)
            token_scores(pair_table, pair_rows, begin, end, state[SCALE], pair)
            if len(rules[0]) > 0:
                _obey(unary, pair, length, rules)
            steps = pair.reshape((longest, states, states))
            target = 0.0
            if _truth(gold, begin, end, right_path):
                for place in range(length):
                    truth = right_path[place]
                    target += unary[place, truth]
                    if place > 0:
                        target += pair[place, right_path[place - 1] * states + truth]
            else:
                for place in range(length):
                    for label in range(states):
                        held[place, label] = unary[place, label] if allowed[begin + place, label] else -np.inf
                target = best_path(held, steps, 0, length, room, pointer, right_path)
            for place in range(length):
                for label in range(states):
                    if gold[begin + place] >= 0:
                        unary[place, label] += cost if label != gold[begin + place] else 0.0
                    elif not allowed[begin + place, label]:
                        unary[place, label] += cost
            best = best_path(unary, steps, 0, length, room, pointer, path)
            hinge += best - target
            change = 1.0 if strength == 0.0 else 1.0 / (strength * state[STEPS] * state[SCALE])
            behind = change * state[SUMMED]
            for place in range(length):
                token, truth, said = begin + place, right_path[place], path[place]
                if said != truth:
                    wrong += 1
                    _move(unary_table, unary_sums, unary_rows, token, truth, said, change, behind)
                if place > 0:
                    right = right_path[place - 1] * states + truth
                    other = path[place - 1] * states + said
                    if right != other:
                        _move(pair_table, pair_sums, pair_rows, token, right, other, change, behind)
        state[SUMMED] += state[SCALE]
        state[AVERAGED] += 1.0
    return wrong, hinge
