"""One projective tree: the best one, or one drawn from its exact distribution.

In: scores of edges as in ``eisner`` (flat, head x modifier). Out: the head of each token
``heads[n + 1]`` (``heads[0]`` is -1). Below the stages.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import LOG_MAX, LOG_SUM
from loopwise.compiled.arrays import floats
from loopwise.compiled.decorators import callee, kernel
from loopwise.graph.structured.kernels.eisner import load_weights
from loopwise.graph.structured.kernels.eisner_charts import INTO_LEFT, INTO_RIGHT, LEFT, RIGHT, SPLIT, WEIGHT
from loopwise.graph.structured.kernels.eisner_log import inside_log


@callee
def _pick(terms, count, uniform):
    """The place of the largest term (``uniform`` negative; the first of several), or one drawn by exp(term)."""
    top, best = -np.inf, 0
    for step in range(count):
        if terms[step] > top:
            top, best = terms[step], step
    if uniform < 0.0:
        return best
    total = 0.0
    for step in range(count):
        total += np.exp(terms[step] - top)
    left = uniform * total
    for step in range(count):
        weight = np.exp(terms[step] - top)
        if left < weight:
            return step
        left -= weight
    return best  # rounding


@callee
def _push(stack, place, kind, i, j):
    stack[place, 0], stack[place, 1], stack[place, 2] = kind, i, j


@callee
def _descend(charts, n, single_root, uniforms, heads):
    """From the whole sentence down to its edges; every choice takes the next of ``uniforms`` (none: the best)."""
    m, size = n + 1, (n + 1) * (n + 1)
    terms, stack, drawn = floats(m), np.empty((4 * m + 4, 3), dtype=np.int64), 0
    heads[0] = -1
    depth = 1
    _push(stack, 0, RIGHT, 0, n)
    if single_root:
        for r in range(1, m):
            terms[r - 1] = charts[WEIGHT * size + r] + charts[LEFT * size + m + r] + charts[RIGHT * size + r * m + n]
        root = 1 + _pick(terms, n, uniforms[drawn] if uniforms.shape[0] else -1.0)
        drawn += 1
        heads[root] = 0
        _push(stack, 0, LEFT, 1, root)
        _push(stack, 1, RIGHT, root, n)
        depth = 2
    while depth > 0:
        depth -= 1
        kind, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if i == j:
            continue
        row, column = i * m + i, (i + 1) * m + j
        for step in range(j - i):
            if kind == RIGHT:
                terms[step] = charts[INTO_RIGHT * size + row + 1 + step] + charts[RIGHT * size + column + step * m]
            elif kind == LEFT:
                terms[step] = charts[LEFT * size + row + step] + charts[INTO_LEFT * size + column + (step - 1) * m]
            else:
                terms[step] = charts[RIGHT * size + row + step] + charts[LEFT * size + column + step * m]
        r = i + _pick(terms, j - i, uniforms[drawn] if uniforms.shape[0] else -1.0)
        drawn += 1
        if kind == RIGHT:
            heads[r + 1] = i
            _push(stack, depth, SPLIT, i, r + 1)
            _push(stack, depth + 1, RIGHT, r + 1, j)
        elif kind == LEFT:
            heads[r] = j
            _push(stack, depth, LEFT, i, r)
            _push(stack, depth + 1, SPLIT, r, j)
        else:
            _push(stack, depth, RIGHT, i, r)
            _push(stack, depth + 1, LEFT, r + 1, j)
        depth += 2


@kernel
def best_projective(scores, n, single_root, charts, heads):
    """The tree of largest total score by Eisner's algorithm; its score, or -inf if there is none. O(n^3)."""
    shift = load_weights(scores, n, charts)
    if shift == -np.inf:
        return -np.inf
    best = inside_log(charts, n, single_root, LOG_MAX)
    if best == -np.inf:
        return -np.inf
    _descend(charts, n, single_root, floats(0), heads)
    return shift + best


@kernel
def draw_projective(scores, n, single_root, uniforms, charts, heads):
    """Trees drawn from the distribution of ``scores``: ``heads[samples, n + 1]`` from ``uniforms[samples, 2 n + 1]``.

    log Z, or -inf if there is no tree. O(n^3) once, O(n^2) a tree."""
    shift = load_weights(scores, n, charts)
    if shift == -np.inf:
        return -np.inf
    total = inside_log(charts, n, single_root, LOG_SUM)
    if total == -np.inf:
        return -np.inf
    for sample in range(heads.shape[0]):
        _descend(charts, n, single_root, uniforms[sample], heads[sample])
    return shift + total
