"""Paths of linear chains: the best one, and sampled ones.

In: log-potentials, or marginals, of chains as :mod:`loopwise.kernels.chain` has them. Out: states ``[tokens]``. Stage:
below inference.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel


@callee
def best_path(unary, pair, begin, end, score, pointer, path):
    """The most probable states of one chain (Viterbi 1967) into ``path[begin:end]``; of equals, the lowest; its score.

    ``score`` ``[2, K]`` and ``pointer`` ``[longest, K]`` are room to work in.
    """
    states, shared = unary.shape[1], pair.shape[0] == 1
    for state in range(states):
        score[0, state] = unary[begin, state]
    for token in range(begin + 1, end):
        table, row = 0 if shared else token, (token - begin) % 2
        for state in range(states):
            best, chosen = -np.inf, 0
            for before in range(states):
                value = score[1 - row, before] + pair[table, before, state]
                if value > best:
                    best, chosen = value, before
            score[row, state] = best + unary[token, state]
            pointer[token - begin, state] = chosen
    row, chosen = (end - 1 - begin) % 2, 0
    for state in range(1, states):
        if score[row, state] > score[row, chosen]:
            chosen = state
    total = score[row, chosen]
    for back in range(end - begin):
        token = end - 1 - back
        path[token] = chosen
        if token > begin:
            chosen = pointer[token - begin, chosen]
    return total


@kernel
def best_paths(unary, pair, start, first, last, path, score):
    """:func:`best_path` of chains ``first`` to ``last - 1``; their scores."""
    longest, states = 1, unary.shape[1]
    for chain in range(first, last):
        longest = max(longest, start[chain + 1] - start[chain])
    room, pointer = np.empty((2, states)), np.empty((longest, states), np.int32)
    for chain in range(first, last):
        score[chain] = 0.0
        if start[chain] < start[chain + 1]:
            score[chain] = best_path(unary, pair, start[chain], start[chain + 1], room, pointer, path)


@kernel
def sample_paths(start, first, last, single, double, uniform, path):
    """Paths drawn from the chains' distributions, right to left; ``uniform`` ``[tokens]`` decides.

    ``single`` and ``double`` (a table a token) are the marginals.
    """
    states = single.shape[1]
    for chain in range(first, last):
        begin, end = start[chain], start[chain + 1]
        for back in range(end - begin):
            token = end - 1 - back
            total, mass = 0.0, 1.0
            if back > 0:
                after = path[token + 1]
                mass = single[token + 1, after]
            threshold, chosen = uniform[token] * mass, 0
            for state in range(states):
                share = single[token, state] if back == 0 else double[token + 1, state, after]
                if share > 0.0:
                    chosen = state  # the last possible one, if rounding leaves the threshold above the sum
                    total += share
                    if total > threshold:
                        break
            path[token] = chosen
