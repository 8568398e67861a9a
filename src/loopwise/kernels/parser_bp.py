r"""Compiled belief propagation of one sentence: a tree factor over all arcs, pair factors, log-odds messages.

In: scores of arcs and of pairs. Out: beliefs of arcs, the tape of a run, and from adjoints of beliefs those of scores.
Stage: below inference. All variables are binary, so a message is one number, log m(ON) - log m(OFF). One iteration is
the schedule of a spanning tree rooted at the tree factor: pairs to arcs, arcs to tree, tree to arcs, arcs to pairs. The
tree's message comes last, so beliefs are exact marginals of a tree model with the scores that arrived, and sum to 1 for
each word after any number of iterations (Gormley, Dredze & Eisner 2015).

The tape holds, for each iteration: ``arrived`` (what the tree factor got), ``on`` and ``off`` (log p and log(1 - p)),
``sent`` (the messages of pairs to their two arcs), and the tree's charts where memory allows.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from loopwise.kernels.eisner import charts_size
from loopwise.kernels.parser_trees import tree_forward, tree_pull_back

CAP = 50.0  # log-odds beyond this count as this, and have no slope: exp(-50) is far below what a belief can show
KEPT = 1 << 19  # numbers of charts kept of one run, 4 MiB; longer sentences fill them again on the way back


@njit(cache=True, nogil=True, error_model="numpy")
def pair_message(incoming, score):
    r""":math:`\log(1-q+q e^s)` with :math:`q=\sigma(\ell)`: softplus(l + s) - softplus(l), without cancellation."""
    both = incoming + score
    ratio = (1.0 + math.exp(-abs(both))) / (1.0 + math.exp(-abs(incoming)))
    return max(both, 0.0) - max(incoming, 0.0) + math.log(ratio)


@njit(cache=True, nogil=True, error_model="numpy")
def sigmoid(value):
    small = math.exp(-abs(value))
    return (1.0 if value >= 0.0 else small) / (1.0 + small)


@njit(cache=True, nogil=True, error_model="numpy")
def capped_odds(on, off):
    return min(max(on - off, -CAP), CAP)


@njit(cache=True, nogil=True, error_model="numpy")
def pairs_to_arcs(previous, on, off, sent, first, second, scores, out, arrived):
    """First phase of an iteration; ``previous`` < 0: nothing was received yet, messages are uniform."""
    for pair in range(len(first)):
        one, two = first[pair], second[pair]
        from_one = from_two = 0.0
        if previous >= 0:
            from_one = capped_odds(on[previous, one], off[previous, one]) - sent[previous, 0, pair]
            from_two = capped_odds(on[previous, two], off[previous, two]) - sent[previous, 1, pair]
        out[0, pair] = pair_message(from_two, scores[pair])
        out[1, pair] = pair_message(from_one, scores[pair])
        arrived[one] += out[0, pair]
        arrived[two] += out[1, pair]


@njit(cache=True, nogil=True, error_model="numpy")
def dense_scores(n, heads, mods, values):
    """Scores of arcs as the flat matrix that tree kernels read, -inf where there is no arc."""
    dense = np.full((n + 1) * (n + 1), -np.inf)
    for arc in range(len(heads)):
        dense[heads[arc] * (n + 1) + mods[arc]] = values[arc]
    return dense


@njit(nogil=True, error_model="numpy", inline="always")
def tree_marginals(n, heads, mods, scores, structure, charts, on, off):
    """log Z of a tree model of some arcs, and log p and log(1 - p) of each; charts are filled. -inf: no tree."""
    cells = (n + 1) * (n + 1)
    dense = dense_scores(n, heads, mods, scores)
    log_on, log_off = np.empty(cells), np.empty(cells)
    log_partition, in_log = tree_forward(dense, n, structure, charts, log_on, log_off)
    if log_partition > -np.inf:
        for arc in range(len(heads)):
            cell = heads[arc] * (n + 1) + mods[arc]
            on[arc], off[arc] = log_on[cell], log_off[cell]
    return log_partition, in_log


@njit(nogil=True, error_model="numpy", inline="always")
def tree_adjoint(n, heads, mods, scores, structure, charts, in_log, on, off, of_marginal, of_odds, out):
    """Adjoints of the scores from those of p and of logit p, after :func:`tree_marginals` with these charts."""
    cells = (n + 1) * (n + 1)
    dense = dense_scores(n, heads, mods, scores)
    log_on, log_off = np.full(cells, -np.inf), np.zeros(cells)
    marginal, odds, back = np.zeros(cells), np.zeros(cells), np.empty(cells)
    for arc in range(len(heads)):
        cell = heads[arc] * (n + 1) + mods[arc]
        log_on[cell], log_off[cell], marginal[cell] = on[arc], off[arc], of_marginal[arc]
        odds[cell] = of_odds[arc] if abs(on[arc] - off[arc]) < CAP else 0.0
    tree_pull_back(dense, n, structure, charts, in_log, log_on, log_off, marginal, odds, back)
    for arc in range(len(heads)):
        out[arc] = back[heads[arc] * (n + 1) + mods[arc]]


@njit(cache=True, nogil=True, error_model="numpy")
def propagate(n, heads, mods, unary, first, second, scores, iterations, tolerance, structure):
    """At most ``iterations``, fewer if no belief moves by more than ``tolerance``.

    Returns ``used, log_partition, tape``; the partition function, of the tree factor in the last iteration, is 0 (its
    logarithm -inf) where the arcs hold no tree. O(iterations (n^3 + pairs)).
    """
    arcs, pairs, size = len(heads), len(first), charts_size(n)
    arrived, on = np.empty((iterations, arcs)), np.empty((iterations, arcs))
    off, sent = np.empty((iterations, arcs)), np.empty((iterations, 2, pairs))
    charts = np.empty((iterations if iterations * size <= KEPT else 1, size))
    in_log = np.zeros(len(charts), np.bool_)
    tape = (arrived, on, off, sent, charts, in_log)
    used, log_partition = 0, 0.0
    while used < iterations:
        arrived[used] = unary
        pairs_to_arcs(used - 1, on, off, sent, first, second, scores, sent[used], arrived[used])
        row = used % len(charts)
        log_partition, in_log[row] = tree_marginals(
            n, heads, mods, arrived[used], structure, charts[row], on[used], off[used]
        )
        used += 1
        if log_partition == -np.inf:
            break
        if used > 1 and tolerance > 0.0:
            moved = 0.0
            for arc in range(arcs):
                moved = max(moved, abs(math.exp(on[used - 1, arc]) - math.exp(on[used - 2, arc])))
            if moved <= tolerance:
                break
    return used, log_partition, tape


@njit(cache=True, nogil=True, error_model="numpy")
def pull_back_run(n, heads, mods, first, second, scores, used, structure, tape, adjoint, of_unary, of_scores):
    """Adjoints of all scores, from ``adjoint``, that of the beliefs; one product with a tree covariance an iteration.

    ``tape``: what :func:`propagate` returned. O(iterations (n^3 + pairs)), about twice the forward pass.
    """
    arrived, on, off, sent, charts, in_log = tape
    arcs, pairs = len(heads), len(first)
    of_marginal, of_odds, moved = adjoint.copy(), np.zeros(arcs), np.empty(arcs)
    of_message = np.zeros((2, pairs))  # adjoints of the messages that arcs sent to pairs
    of_unary[:] = 0.0
    of_scores[:] = 0.0
    for step in range(used - 1, -1, -1):
        row = step % len(charts)
        if len(charts) == 1 and step != used - 1:
            _, in_log[0] = tree_marginals(n, heads, mods, arrived[step], structure, charts[0], on[step], off[step])
        tree_adjoint(
            n, heads, mods, arrived[step], structure, charts[row], in_log[row], on[step], off[step], of_marginal,
            of_odds, moved,
        )  # fmt: skip
        of_marginal[:] = 0.0
        of_odds[:] = 0.0
        of_unary += moved
        for pair in range(pairs):
            one, two = first[pair], second[pair]
            to_one, to_two = moved[one] - of_message[0, pair], moved[two] - of_message[1, pair]
            from_one = from_two = 0.0
            if step > 0:
                from_one = capped_odds(on[step - 1, one], off[step - 1, one]) - sent[step - 1, 0, pair]
                from_two = capped_odds(on[step - 1, two], off[step - 1, two]) - sent[step - 1, 1, pair]
            joint_two, joint_one = sigmoid(from_two + scores[pair]), sigmoid(from_one + scores[pair])
            of_scores[pair] += joint_two * to_one + joint_one * to_two
            of_message[1, pair] = (joint_two - sigmoid(from_two)) * to_one
            of_message[0, pair] = (joint_one - sigmoid(from_one)) * to_two
            of_odds[one] += of_message[0, pair]
            of_odds[two] += of_message[1, pair]


@njit(cache=True, nogil=True, error_model="numpy")
def pair_cells(pair, first, second, scores, on, off, sent):
    """Belief of a pair: (OFF, OFF), (ON, OFF), (OFF, ON), (ON, ON). ``on``, ``off``, ``sent``: of one iteration."""
    one = capped_odds(on[first[pair]], off[first[pair]]) - sent[0, pair]
    two = capped_odds(on[second[pair]], off[second[pair]]) - sent[1, pair]
    both = one + two + scores[pair]
    top = max(max(0.0, one), max(two, both))
    cells = (math.exp(-top), math.exp(one - top), math.exp(two - top), math.exp(both - top))
    total = cells[0] + cells[1] + cells[2] + cells[3]
    return cells[0] / total, cells[1] / total, cells[2] / total, cells[3] / total


@njit(cache=True, nogil=True, error_model="numpy")
def entropy(probability):
    return -probability * math.log(probability) if probability > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def bethe_value(log_partition, unary, first, second, scores, arrived, on, off, sent, joint):
    r"""The Bethe approximation of log Z at the beliefs of one iteration, and ``joint``, the beliefs b(ON, ON) of pairs.

    The tree factor's entropy is :math:`\log Z_T-\sum_e p_e a_e`; every arc is in the tree and in its pairs, so its own
    entropy is taken off once a pair.
    """
    value = log_partition
    for arc in range(len(unary)):
        value += math.exp(on[arc]) * (unary[arc] - arrived[arc])
    for pair in range(len(first)):
        none, one, two, both = pair_cells(pair, first, second, scores, on, off, sent)
        joint[pair] = both
        value += both * scores[pair] + entropy(none) + entropy(one) + entropy(two) + entropy(both)
        for arc in (first[pair], second[pair]):
            value -= entropy(math.exp(on[arc])) + entropy(math.exp(off[arc]))
    return value
