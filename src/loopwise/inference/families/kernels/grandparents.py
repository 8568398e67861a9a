r"""Compiled exact inference with grandparents (Koo & Collins 2010, Model 0), and its Hessian-vector product.

In: scores of edges and of grandparent pairs of sentences. Out: log Z, marginals of both, and the derivative of the
marginals along a direction. Stage: below inference. Projective trees only.

A span's head h carries its own head g, so items belong to an arc a = (g, h): ``complete[a, e]`` is all trees over h..e
headed by h, ``incomplete[a, m]`` those in which m is the child of h taken last. The root has no head; its items are in
row ``arcs``, the last. Charts hold logarithms; the outside quantities are derivatives of log Z, plain probabilities.
O(arcs n^2) time, that is O(n^4) unpruned and O(k n^3) with k heads a word; O(arcs n) memory.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel


class DirectedChart(NamedTuple):
    """A chart, and how it moves along the direction."""

    value: Any
    tangent: Any


@callee
def arc_numbers(n, heads, mods):
    """``numbers[h, m]``: the arc from h to m, -1 if there is none."""
    numbers = np.full((n + 1, n + 1), -1, np.int64)
    for arc in range(len(heads)):
        numbers[heads[arc], mods[arc]] = arc
    return numbers


@callee
def item_scores(n, heads, mods, unary, first, second, scores):
    """``sigma[a, m]``: the score of the arc h -> m below the arc a = (g, h); -inf where there is no such pair."""
    arcs = len(heads)
    sigma = np.full((arcs + 1, n + 1), -np.inf)
    for pair in range(len(first)):
        arc = second[pair]
        sigma[first[pair], mods[arc]] = unary[arc] + scores[pair]
    for arc in range(arcs):
        if heads[arc] == 0:
            sigma[arcs, mods[arc]] = unary[arc]
    return sigma


@callee
def log_mean(total, mean, term, tangent):
    """Adds exp(term) to a running log-sum, and its tangent to the running weighted mean of tangents."""
    if term == -np.inf:
        return total, mean
    if total == -np.inf:
        return term, tangent
    if term > total:
        share = math.exp(total - term)
        return term + math.log1p(share), (tangent + share * mean) / (1.0 + share)
    share = math.exp(term - total)
    return total + math.log1p(share), (mean + share * tangent) / (1.0 + share)


@callee
def end_of(n, g, h, side):
    """The last word that a span of h may reach on one side: all but what lies at or beyond its own head."""
    if side > 0:
        return g - 1 if g > h else n
    return g + 1 if g < h else 1


@callee
def fill_item(a, h, e, side, numbers, edges, wholes, parts):
    """``incomplete[a, e]`` and then ``complete[a, e]`` from shorter spans; ``edges``: sigma, and the direction."""
    sigma, complete, incomplete = edges.value, wholes.value, parts.value
    complete_tangent, incomplete_tangent = wholes.tangent, parts.tangent
    below = numbers[h, e]
    if below >= 0 and sigma[a, e] > -np.inf:
        total, mean, r = -np.inf, 0.0, h
        while r != e:  # h..r belongs to h, the rest up to e to the word e
            term = complete[a, r] + complete[below, r + side]
            total, mean = log_mean(total, mean, term, complete_tangent[a, r] + complete_tangent[below, r + side])
            r += side
        incomplete[a, e], incomplete_tangent[a, e] = sigma[a, e] + total, edges.tangent[a, e] + mean
    total, mean, m = -np.inf, 0.0, h
    while m != e:
        m += side
        below = numbers[h, m]
        if below >= 0 and incomplete[a, m] > -np.inf:
            term = incomplete[a, m] + complete[below, e]
            total, mean = log_mean(total, mean, term, incomplete_tangent[a, m] + complete_tangent[below, e])
    complete[a, e], complete_tangent[a, e] = total, mean


@callee
def undo_item(a, h, e, side, numbers, wholes, parts, splits, reached, found):
    """Hands the outside quantities of both items of ``(a, e)``, ``reached``, to what they were made from, and to
    ``found``, the derivatives of log Z by the edges."""
    complete, incomplete, split, outside, score = wholes.value, parts.value, splits.value, reached.value, found.value
    complete_tangent, incomplete_tangent, split_tangent = wholes.tangent, parts.tangent, splits.tangent
    moved_outside, moved_score = reached.tangent, found.tangent
    out, moved = outside[0, a, e], moved_outside[0, a, e]
    if out != 0.0 or moved != 0.0:
        m = h
        while m != e:
            m += side
            below = numbers[h, m]
            if below >= 0 and incomplete[a, m] > -np.inf and complete[below, e] > -np.inf:
                share = math.exp(incomplete[a, m] + complete[below, e] - complete[a, e])
                bent = share * (incomplete_tangent[a, m] + complete_tangent[below, e] - complete_tangent[a, e])
                outside[1, a, m] += share * out
                moved_outside[1, a, m] += bent * out + share * moved
                outside[0, below, e] += share * out
                moved_outside[0, below, e] += bent * out + share * moved
    out, moved = outside[1, a, e], moved_outside[1, a, e]
    if out != 0.0 or moved != 0.0:
        below, r = numbers[h, e], h
        score[a, e] += out
        moved_score[a, e] += moved
        while r != e:
            term = complete[a, r] + complete[below, r + side]
            if term > -np.inf:
                share = math.exp(term - split[a, e])
                bent = share * (complete_tangent[a, r] + complete_tangent[below, r + side] - split_tangent[a, e])
                outside[0, a, r] += share * out
                moved_outside[0, a, r] += bent * out + share * moved
                outside[0, below, r + side] += share * out
                moved_outside[0, below, r + side] += bent * out + share * moved
            r += side


@callee
def model0(n, heads, mods, sigma, moved, single_root):
    """``log Z, marginals, derivatives`` of every ``sigma[a, m]``, the last two ``[arcs + 1, n + 1]``.

    ``moved``: the direction, of the shape of ``sigma``. Derivatives are those of the marginals along it.
    """
    arcs = len(heads)
    numbers = arc_numbers(n, heads, mods)
    complete, incomplete = np.full((arcs + 1, n + 1), -np.inf), np.full((arcs + 1, n + 1), -np.inf)
    complete_tangent, incomplete_tangent = np.zeros((arcs + 1, n + 1)), np.zeros((arcs + 1, n + 1))
    edges, wholes = DirectedChart(sigma, moved), DirectedChart(complete, complete_tangent)
    parts = DirectedChart(incomplete, incomplete_tangent)
    for a in range(arcs + 1):
        complete[a, mods[a] if a < arcs else 0] = 0.0
    rows = arcs if single_root else arcs + 1  # with a single root the last row is no item
    for width in range(1, n + 1):
        for a in range(rows):
            g, h = (heads[a], mods[a]) if a < arcs else (-1, 0)
            for side in (-1, 1):
                e, last = h + side * width, end_of(n, g, h, side)
                if (side > 0 and e <= last) or (side < 0 and e >= last and h > 0):
                    fill_item(a, h, e, side, numbers, edges, wholes, parts)
    outside, moved_outside = np.zeros((2, arcs + 1, n + 1)), np.zeros((2, arcs + 1, n + 1))
    score, moved_score = np.zeros((arcs + 1, n + 1)), np.zeros((arcs + 1, n + 1))
    log_partition, mean = complete[arcs, n], complete_tangent[arcs, n]
    if single_root:
        log_partition, mean = -np.inf, 0.0
        for m in range(1, n + 1):
            below = numbers[0, m]
            if below >= 0:
                term = sigma[arcs, m] + complete[below, 1] + complete[below, n]
                tangent = moved[arcs, m] + complete_tangent[below, 1] + complete_tangent[below, n]
                log_partition, mean = log_mean(log_partition, mean, term, tangent)
    if log_partition == -np.inf:
        return log_partition, score, moved_score
    if single_root:
        for m in range(1, n + 1):
            below = numbers[0, m]
            if below >= 0:
                share = math.exp(sigma[arcs, m] + complete[below, 1] + complete[below, n] - log_partition)
                tangent = moved[arcs, m] + complete_tangent[below, 1] + complete_tangent[below, n]
                bent = share * (tangent - mean)
                score[arcs, m], moved_score[arcs, m] = share, bent
                outside[0, below, 1] += share
                moved_outside[0, below, 1] += bent
                outside[0, below, n] += share
                moved_outside[0, below, n] += bent
    else:
        outside[0, arcs, n] = 1.0
    splits = DirectedChart(incomplete - sigma, incomplete_tangent - moved)
    reached, found = DirectedChart(outside, moved_outside), DirectedChart(score, moved_score)
    for width in range(n, 0, -1):
        for a in range(rows):
            g, h = (heads[a], mods[a]) if a < arcs else (-1, 0)
            for side in (-1, 1):
                e, last = h + side * width, end_of(n, g, h, side)
                if (side > 0 and e <= last) or (side < 0 and e >= last and h > 0):
                    undo_item(a, h, e, side, numbers, wholes, parts, splits, reached, found)
    return log_partition, score, moved_score


@callee
def read_items(heads, mods, first, second, items, of_arcs, of_pairs):
    """Values of items ``[a, m]``: each belongs to a pair, and their sum over grandparents to an arc."""
    of_arcs[:] = 0.0
    for pair in range(len(first)):
        of_pairs[pair] = items[first[pair], mods[second[pair]]]
        of_arcs[second[pair]] += of_pairs[pair]
    for arc in range(len(heads)):
        if heads[arc] == 0:
            of_arcs[arc] += items[len(heads), mods[arc]]


@kernel
def grandparent_marginals(sentences, unary, scores, adjoint, log_partition, of_edges, of_pairs):
    """log Z of each sentence (-inf: no tree), marginals of its edges and pairs; where ``adjoint`` is not empty, instead
    of marginals their derivatives along it, which are adjoints of the scores, as the covariance is symmetric.

    ``sentences``: ``Sentences`` whose pairs are all grandparents that can be."""
    for s in range(len(sentences.lengths)):
        n, begin, end = sentences.lengths[s], sentences.edge_start[s], sentences.edge_start[s + 1]
        low, high = sentences.pair_start[s], sentences.pair_start[s + 1]
        log_partition[s] = 0.0
        if n == 0:
            continue
        heads, mods = sentences.heads[begin:end], sentences.mods[begin:end]
        first, second, arcs = sentences.first[low:high], sentences.second[low:high], end - begin
        sigma = item_scores(n, heads, mods, unary[begin:end], first, second, scores[low:high])
        direction = np.zeros_like(sigma)
        if len(adjoint) > 0:
            for pair in range(len(first)):
                direction[first[pair], mods[second[pair]]] = adjoint[begin + second[pair]]
            for arc in range(arcs):
                if heads[arc] == 0:
                    direction[arcs, mods[arc]] = adjoint[begin + arc]
        log_partition[s], items, derivatives = model0(n, heads, mods, sigma, direction, sentences.single_root)
        if len(adjoint) > 0:
            items = derivatives
        read_items(heads, mods, first, second, items, of_edges[begin:end], of_pairs[low:high])
