"""The best tree that need not be projective: Chu & Liu 1965, Edmonds 1967.

In: scores of edges as in ``eisner`` (flat, head x modifier). Out: the head of each token. Below
the stages.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.graph.structured.kernels.eisner import load_weights


@callee
def _contract(scores, edge, enter, alive, above, members, count, new):
    """Puts the cycle ``members`` into one node ``new``: entering it costs the edge that is given up."""
    width = scores.shape[0]
    for place in range(count):
        alive[members[place]], above[members[place]] = False, new
    alive[new] = True
    for other in range(new):
        if not alive[other]:
            continue
        for place in range(count):
            member = members[place]
            given_up = scores[enter[member] // width, member]
            value = scores[other, member] - given_up
            if scores[other, member] > -np.inf and value > scores[other, new]:
                scores[other, new], edge[other, new] = value, edge[other, member]
            if scores[member, other] > scores[new, other]:
                scores[new, other], edge[new, other] = scores[member, other], edge[member, other]


@callee
def _grow(scores, edge, n, enter, alive, above):
    """Follows best heads from token to token, contracting cycles, until all lead to the root; False if one cannot."""
    width = scores.shape[0]
    finished = np.zeros(width, dtype=np.bool_)
    on_path = np.zeros(width, dtype=np.bool_)
    path, members = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    finished[0] = True
    nodes = n + 1
    for token in range(1, n + 1):
        depth, node = 0, token
        while not alive[node]:
            node = above[node]
        while not finished[node]:
            path[depth], on_path[node] = node, True
            depth += 1
            best, head = -np.inf, -1
            for other in range(nodes):
                if alive[other] and other != node and scores[other, node] > best:
                    best, head = scores[other, node], other
            if head < 0:
                return False
            enter[node] = head * width + node  # which pair of nodes; the edge it stands for is edge[head, node]
            node = head
            if on_path[node] and not finished[node]:
                count = 0
                while True:
                    depth -= 1
                    members[count] = path[depth]
                    on_path[path[depth]] = False
                    count += 1
                    if path[depth] == node:
                        break
                _contract(scores, edge, enter, alive, above, members, count, nodes)
                node = nodes
                nodes += 1
        for place in range(depth):
            finished[path[place]] = True
            on_path[path[place]] = False
    return True


@kernel
def best_spanning(scores, n, single_root, heads):
    """The tree of largest total score (``heads[n + 1]``, ``heads[0]`` = -1); its score, or -inf if there is none.

    Single root: root edges pay more than the scores could make up for, so the best tree has as few of them as any
    (Stanojevic & Cohen 2021). O(n^2) a contraction, O(n^3) in all."""
    width, size = n + 1, (n + 1) * (n + 1)
    weights = np.empty(size)
    shift = load_weights(scores, n, weights)
    if shift == -np.inf:
        return -np.inf
    paid = 0.0
    if single_root:
        least = 0.0
        for at in range(size):
            if weights[at] > -np.inf:
                least = min(least, weights[at])
        paid = 1.0 - n * least  # columns have a largest weight of 0
    full = 2 * width
    table, edge = np.full((full, full), -np.inf), np.zeros((full, full), dtype=np.int64)
    for head in range(width):
        for modifier in range(1, width):
            if head != modifier:
                table[head, modifier] = weights[head * width + modifier] - (paid if head == 0 else 0.0)
                edge[head, modifier] = head * width + modifier
    enter, above = np.full(full, -1, dtype=np.int64), np.full(full, -1, dtype=np.int64)
    alive = np.zeros(full, dtype=np.bool_)
    for node in range(width):
        alive[node] = True
    if not _grow(table, edge, n, enter, alive, above):
        return -np.inf
    chosen = np.full(full, -1, dtype=np.int64)
    for node in range(full - 1, 0, -1):  # outer nodes first: where they are entered replaces an edge of the cycle
        if enter[node] < 0:
            continue
        if chosen[node] < 0:
            chosen[node] = edge[enter[node] // full, node]
        if node > n:
            inner = chosen[node] % width
            while above[inner] != node:
                inner = above[inner]
            chosen[inner] = chosen[node]
    total, roots = shift, 0
    heads[0] = -1
    for modifier in range(1, width):
        heads[modifier] = chosen[modifier] // width
        total += weights[chosen[modifier]]
        roots += heads[modifier] == 0
    return -np.inf if single_root and roots != 1 else total
