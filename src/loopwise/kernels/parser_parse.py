"""Compiled parsing: scores, inference, decoding of many sentences.

In: arcs that are left, weights. Out: beliefs of arcs, the head of each word. Stage: below decisions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from loopwise.kernels.parser_bp import CAP, capped_odds, dense_scores, propagate
from loopwise.kernels.parser_model0 import item_scores, model0
from loopwise.kernels.parser_parts import list_pairs, score_parts, scratch
from loopwise.kernels.parser_step import EXACT, read_items
from loopwise.kernels.parser_trees import tree_argmax


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def sentence_beliefs(
    n, heads, mods, unary, first, second, scores, method, iterations, tolerance, structure, belief, odds
):
    """Beliefs of arcs and their log-odds; False where the arcs hold no tree."""
    if method == EXACT:
        sigma = item_scores(n, heads, mods, unary, first, second, scores)
        log_partition, items, _ = model0(n, heads, mods, sigma, np.zeros_like(sigma), structure)
        if log_partition == -np.inf:
            return False
        belief[:] = 0.0
        read_items(heads, mods, first, second, items, belief, np.empty(len(first)))
        odds[:] = np.log(belief) - np.log(np.maximum(1.0 - belief, 0.0))
        odds[:] = np.minimum(np.maximum(odds, -CAP), CAP)
        return True
    used, log_partition, tape = propagate(
        n, heads, mods, unary, first, second, scores, iterations, tolerance, structure
    )
    if log_partition == -np.inf:
        return False
    on, off = tape[1][used - 1], tape[2][used - 1]
    for arc in range(len(heads)):
        belief[arc], odds[arc] = np.exp(on[arc]), capped_odds(on[arc], off[arc])
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def parse_chunk(
    tokens, token_start, chosen, arc_start, heads, mods, weights, flags, tags, method, iterations, tolerance, structure,
    by_odds, belief, parsed, failed,
):  # fmt: skip
    """Beliefs ``[arcs]`` and heads ``[tokens]`` of the sentences ``chosen``; ``failed`` marks those without a tree.

    Decoding maximises the sum of the beliefs (minimum Bayes risk), or that of their log-odds (``by_odds``). Arcs are
    those of the chosen sentences in a row: sentence j has ``arc_start[j]`` to ``arc_start[j + 1]``.
    """
    room = scratch(tags)
    for j in range(len(chosen)):
        begin, end = arc_start[j], arc_start[j + 1]
        column = token_start[chosen[j]] + 1
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        if n == 0:
            continue
        h, m = heads[begin:end], mods[begin:end]
        first, second, grandparents = list_pairs(n, h, m, structure)
        unary, scores, odds = np.empty(end - begin), np.empty(len(first)), np.empty(end - begin)
        score_parts(tokens, column, h, m, first, second, grandparents, flags, weights, room, unary, scores)
        failed[j] = not sentence_beliefs(
            n, h, m, unary, first, second, scores, method, iterations, tolerance, structure, belief[begin:end], odds
        )
        if not failed[j]:
            values = dense_scores(n, h, m, odds if by_odds else belief[begin:end])
            parsed[column : column + n + 1] = tree_argmax(values, n, structure)


@njit(cache=True, nogil=True, error_model="numpy")
def best_trees(token_start, chosen, arc_start, heads, mods, scores, structure, parsed, failed):
    """The highest-scoring tree of each sentence, from scores of arcs; ``failed`` as in :func:`parse_chunk`."""
    for j in range(len(chosen)):
        begin, end = arc_start[j], arc_start[j + 1]
        column = token_start[chosen[j]] + 1
        n = token_start[chosen[j] + 1] - token_start[chosen[j]] - 3
        if n > 0:
            tree = tree_argmax(dense_scores(n, heads[begin:end], mods[begin:end], scores[begin:end]), n, structure)
            failed[j] = tree[0] != 0
            parsed[column : column + n + 1] = tree
