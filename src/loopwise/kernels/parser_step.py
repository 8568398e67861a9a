r"""Compiled training of one chunk of sentences: scores, inference, loss, and the adjoint of every score.

In: parts and their weights (:mod:`loopwise.kernels.parser_parts`), gold heads. Out: the loss of each sentence and the
adjoints of its parts. Stage: below learning. Objectives (Gormley, Dredze & Eisner 2015, section 3.2), all to be
minimised: ``LIKELIHOOD`` (surrogate: the Bethe value less the score of the gold tree), ``SQUARED`` (twice the squared
distance of beliefs to gold), ``RISK`` (expected number of wrong heads when the decoder is annealed to a temperature).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from loopwise.kernels.parser_bp import bethe_value, propagate, pull_back_run
from loopwise.kernels.parser_model0 import item_scores, model0

LIKELIHOOD, SQUARED, RISK = 0, 1, 2
# How marginals and their gradient are computed: by belief propagation and back through it, by perturbing its scores, or
# by the exact program with grandparents.
UNROLLED, PERTURBED, EXACT = 0, 1, 2
UNSETTLED = 1e-4  # perturbation needs a fixed point: beliefs that still move by more have none


@njit(cache=True, nogil=True, error_model="numpy")
def squared_adjoint(belief, gold, missing, adjoint):
    """2 sum (b - y)^2 over all arcs; gold arcs that were pruned have b = 0 and add a constant."""
    loss = 2.0 * missing
    for arc in range(len(belief)):
        apart = belief[arc] - gold[arc]
        loss += 2.0 * apart * apart
        adjoint[arc] = 4.0 * apart
    return loss


@njit(nogil=True, error_model="numpy", inline="always")
def risk_adjoint(n, heads, mods, belief, gold, temperature, structure, adjoint):
    r"""n - sum of q over gold arcs, q the marginals of trees with log weights b / temperature; log domain inside."""
    nothing, none = np.empty(0, np.int64), np.empty(0)
    scores, seeds = belief / temperature, -gold.astype(np.float64)
    used, _, tape = propagate(n, heads, mods, scores, nothing, nothing, none, 1, 0.0, structure)
    loss = float(n)
    for arc in range(len(heads)):
        loss -= gold[arc] * math.exp(tape[1][0, arc])
    pull_back_run(n, heads, mods, nothing, nothing, none, used, structure, tape, seeds, adjoint, none)
    adjoint /= temperature
    return loss


@njit(nogil=True, error_model="numpy", inline="always")
def loss_of_beliefs(objective, temperature, n, heads, mods, belief, gold, missing, structure, adjoint):
    """Spliced into its callers: a kernel of its own would have all that it calls compiled once more."""
    if objective == SQUARED:
        loss = squared_adjoint(belief, gold, missing, adjoint)
    else:
        loss = risk_adjoint(n, heads, mods, belief, gold, temperature, structure, adjoint)
    return loss


@njit(cache=True, nogil=True, error_model="numpy")
def gold_score(unary, first, second, scores, gold):
    total = 0.0
    for arc in range(len(unary)):
        total += gold[arc] * unary[arc]
    for pair in range(len(first)):
        total += gold[first[pair]] * gold[second[pair]] * scores[pair]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def likelihood_step(value, on, joint, unary, first, second, scores, gold, of_unary, of_scores):
    """Approximate log Z less the gold score; gradient: belief-weighted less gold features."""
    for arc in range(len(unary)):
        of_unary[arc] = math.exp(on[arc]) - gold[arc]
    for pair in range(len(first)):
        of_scores[pair] = joint[pair] - gold[first[pair]] * gold[second[pair]]
    return value - gold_score(unary, first, second, scores, gold)


@njit(cache=True, nogil=True, error_model="numpy")
def beliefs_of(n, heads, mods, unary, first, second, scores, iterations, tolerance, structure, joint):
    """Beliefs of arcs, ``joint`` ones of pairs, and how far the last iteration moved them; NaN if there is no tree."""
    used, log_partition, tape = propagate(
        n, heads, mods, unary, first, second, scores, iterations, tolerance, structure
    )
    arrived, on, off, sent, _, _ = tape
    if log_partition == -np.inf:
        return np.empty(len(heads)), np.nan
    belief, moved = np.exp(on[used - 1]), 0.0 if len(first) == 0 else np.inf  # one iteration shows no movement
    if used > 1:
        moved = np.abs(belief - np.exp(on[used - 2])).max()
    bethe_value(
        log_partition, unary, first, second, scores, arrived[used - 1], on[used - 1], off[used - 1], sent[used - 1],
        joint,
    )  # fmt: skip
    return belief, moved


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def perturbed_step(
    objective, temperature, n, heads, mods, unary, first, second, scores, gold, missing, iterations, tolerance,
    structure, of_unary, of_scores,
):  # fmt: skip
    """Gradient by two-sided perturbation (Domke 2010): beliefs at scores moved along the loss's adjoint."""
    joint, below = np.empty(len(first)), np.empty(len(first))
    belief, moved = beliefs_of(n, heads, mods, unary, first, second, scores, iterations, tolerance, structure, joint)
    if not moved <= UNSETTLED:
        return np.nan if np.isnan(moved) else np.inf
    adjoint = np.empty(len(heads))
    loss = loss_of_beliefs(objective, temperature, n, heads, mods, belief, gold, missing, structure, adjoint)
    of_unary[:] = 0.0
    of_scores[:] = 0.0
    largest = np.abs(adjoint).max()
    if largest > 0.0:
        step = 6e-6 * (1.0 + np.abs(unary).max()) / largest  # the cube root of the rounding error
        up, _ = beliefs_of(
            n, heads, mods, unary + step * adjoint, first, second, scores, iterations, tolerance, structure, joint
        )
        down, _ = beliefs_of(
            n, heads, mods, unary - step * adjoint, first, second, scores, iterations, tolerance, structure, below
        )
        of_unary[:] = (up - down) / (2.0 * step)
        of_scores[:] = (joint - below) / (2.0 * step)
    return loss


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def exact_step(
    objective, temperature, n, heads, mods, unary, first, second, scores, gold, missing, structure, of_unary, of_scores
):
    """The same on exact marginals of a model with grandparents; NaN where the arcs hold no tree."""
    arcs = len(heads)
    sigma = item_scores(n, heads, mods, unary, first, second, scores)
    direction = np.zeros_like(sigma)
    log_partition, marginals, _ = model0(n, heads, mods, sigma, direction, structure)
    if log_partition == -np.inf:
        return np.nan
    belief = np.zeros(arcs)
    read_items(heads, mods, first, second, marginals, belief, of_scores)
    if objective == LIKELIHOOD:
        joint = of_scores.copy()
        return likelihood_step(
            log_partition, np.log(belief), joint, unary, first, second, scores, gold, of_unary, of_scores
        )
    adjoint = np.empty(arcs)
    loss = loss_of_beliefs(objective, temperature, n, heads, mods, belief, gold, missing, structure, adjoint)
    for pair in range(len(first)):
        direction[first[pair], mods[second[pair]]] = adjoint[second[pair]]
    for arc in range(arcs):
        if heads[arc] == 0:
            direction[arcs, mods[arc]] = adjoint[arc]
    _, _, derivatives = model0(n, heads, mods, sigma, direction, structure)
    of_unary[:] = 0.0
    read_items(heads, mods, first, second, derivatives, of_unary, of_scores)
    return loss


@njit(cache=True, nogil=True, error_model="numpy")
def read_items(heads, mods, first, second, items, of_arcs, of_pairs):
    """Values of items ``[a, m]``: each belongs to a pair, and their sum over grandparents to an arc."""
    for pair in range(len(first)):
        of_pairs[pair] = items[first[pair], mods[second[pair]]]
        of_arcs[second[pair]] += of_pairs[pair]
    for arc in range(len(heads)):
        if heads[arc] == 0:
            of_arcs[arc] += items[len(heads), mods[arc]]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def unrolled_step(
    objective, temperature, n, heads, mods, unary, first, second, scores, gold, missing, iterations, tolerance,
    structure, of_unary, of_scores,
):  # fmt: skip
    """Loss of one sentence and adjoints of its scores, back through belief propagation; NaN: no tree is left."""
    used, log_partition, tape = propagate(
        n, heads, mods, unary, first, second, scores, iterations, tolerance, structure
    )
    if log_partition == -np.inf:
        return np.nan
    arrived, on, off, sent, _, _ = tape
    if objective == LIKELIHOOD:
        joint = np.empty(len(first))
        value = bethe_value(
            log_partition, unary, first, second, scores, arrived[used - 1], on[used - 1], off[used - 1],
            sent[used - 1], joint,
        )  # fmt: skip
        return likelihood_step(value, on[used - 1], joint, unary, first, second, scores, gold, of_unary, of_scores)
    adjoint, belief = np.empty(len(heads)), np.exp(on[used - 1])
    loss = loss_of_beliefs(objective, temperature, n, heads, mods, belief, gold, missing, structure, adjoint)
    pull_back_run(n, heads, mods, first, second, scores, used, structure, tape, adjoint, of_unary, of_scores)
    return loss


@njit(cache=True, nogil=True, error_model="numpy")
def read_sentence(j, token_start, chosen, arc_start, heads, mods, gold_heads, parts, position, weights, values, gold):
    """Scores of the parts of sentence j of a chunk, which of its arcs are gold; its length, how many gold arcs it
    lacks.
    """
    base, start = parts[0], parts[5]
    begin, end = arc_start[chosen[j]], arc_start[chosen[j] + 1]
    column = token_start[chosen[j]] + 1
    missing = n = token_start[chosen[j] + 1] - column - 2
    for part in range(base[j], base[j + 1]):
        total = 0.0
        for place in range(start[part], start[part + 1]):
            total += weights[position[place]]
        values[part - base[j]] = total
    for arc in range(end - begin):
        gold[arc] = gold_heads[column + mods[begin + arc]] == heads[begin + arc]
        missing -= gold[arc]
    return n, missing


@njit(cache=True, nogil=True, error_model="numpy")
def shrink(adjoint, scale, clip):
    """Adjoints of one sentence, times ``scale``, their norm at most ``clip`` before."""
    norm = math.sqrt((adjoint * adjoint).sum())
    adjoint *= scale * (clip / norm if norm > clip else 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def train_chunk(
    token_start, chosen, arc_start, heads, mods, gold_heads, parts, position, weights, objective, temperature,
    iterations, tolerance, structure, scale, clip, adjoint, losses, unrolled, perturbed, exact,
):  # fmt: skip
    """Losses of the sentences ``chosen`` and ``scale`` times the adjoints of all their parts.

    ``parts``: of :func:`build_chunk`; ``position``: where the weight of each feature stands in ``weights``; ``clip``:
    the largest norm that the adjoints of one sentence may have. Of the last three one is not None, the method; those
    that are None are not even compiled. Losses of NaN: no tree is left; of inf: no
    fixed point was found.
    """
    base, pair_base, first, second = parts[0], parts[1], parts[2], parts[3]
    for j in range(len(chosen)):
        begin, end = arc_start[chosen[j]], arc_start[chosen[j] + 1]
        pairs, mine = slice(pair_base[j], pair_base[j + 1]), adjoint[base[j] : base[j + 1]]
        values, gold, arcs = np.empty(len(mine)), np.empty(end - begin, np.int64), end - begin
        n, missing = read_sentence(
            j, token_start, chosen, arc_start, heads, mods, gold_heads, parts, position, weights, values, gold
        )
        h, m, one, two = heads[begin:end], mods[begin:end], first[pairs], second[pairs]
        if unrolled is not None:
            losses[j] = unrolled_step(
                objective, temperature, n, h, m, values[:arcs], one, two, values[arcs:], gold, missing, iterations,
                tolerance, structure, mine[:arcs], mine[arcs:],
            )  # fmt: skip
        if perturbed is not None:
            losses[j] = perturbed_step(
                objective, temperature, n, h, m, values[:arcs], one, two, values[arcs:], gold, missing, iterations,
                tolerance, structure, mine[:arcs], mine[arcs:],
            )  # fmt: skip
        if exact is not None:
            losses[j] = exact_step(
                objective, temperature, n, h, m, values[:arcs], one, two, values[arcs:], gold, missing, structure,
                mine[:arcs], mine[arcs:],
            )  # fmt: skip
        shrink(mine, scale, clip)
