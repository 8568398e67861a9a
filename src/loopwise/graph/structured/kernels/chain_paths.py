"""Paths of linear chains: the best one, and sampled ones.

In: log-potentials, or marginals, of chains as ``chain`` has them. Out: states ``[tokens]``. Stage:
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


@callee
def _insert(score, source, count, size, value, candidate):
    """Puts a candidate into a list of the ``size`` best, best first; of equals, the one that came first; its length."""
    if count == size and not value > score[size - 1]:
        return count
    place = min(count, size - 1)
    while place > 0 and value > score[place - 1]:
        score[place], source[place] = score[place - 1], source[place - 1]
        place -= 1
    score[place], source[place] = value, candidate
    return min(count + 1, size)


@kernel
def k_best_paths(unary, pair, start, first, last, path, score):
    """The best ``len(path)`` paths of chains ``first`` to ``last - 1``, best first: ``path`` ``[k, tokens]``, ``score``
    ``[k, chains]``, minus infinity where there are no more. O(k K^2) a token, and what it takes to keep k in order.
    """
    size, states, shared, longest = path.shape[0], unary.shape[1], pair.shape[0] == 1, 1
    for chain in range(first, last):
        longest = max(longest, start[chain + 1] - start[chain])
    best, source = np.empty((longest, states, size)), np.empty((longest, states, size), np.int64)
    count, final, ends = np.empty((longest, states), np.int64), np.empty(size), np.empty(size, np.int64)
    for chain in range(first, last):
        begin, end = start[chain], start[chain + 1]
        for rank in range(size):
            score[rank, chain] = 0.0 if begin == end and rank == 0 else -np.inf
        if begin == end:
            continue
        for token in range(begin, end):
            place, table = token - begin, 0 if shared else token
            for state in range(states):
                own, found = unary[token, state], 0
                if own > -np.inf and place == 0:
                    best[0, state, 0], found = own, 1
                elif own > -np.inf:
                    for before in range(states):
                        step = pair[table, before, state] + own
                        for rank in range(count[place - 1, before] if step > -np.inf else 0):
                            value = best[place - 1, before, rank] + step
                            found = _insert(
                                best[place, state], source[place, state], found, size, value, before * size + rank
                            )
                count[place, state] = found
        found = 0
        for state in range(states):
            for rank in range(count[end - 1 - begin, state]):
                found = _insert(final, ends, found, size, best[end - 1 - begin, state, rank], state * size + rank)
        for rank in range(found):
            score[rank, chain] = final[rank]
            at = ends[rank]
            for back in range(end - begin):
                place = end - 1 - begin - back
                path[rank, begin + place] = at // size
                at = source[place, at // size, at % size]


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
