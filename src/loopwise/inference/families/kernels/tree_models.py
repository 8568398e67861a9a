r"""Belief propagation of many second-order tree models, each from its first sweep to its last in one call.

In: edges of sentences, their scores, scores of pairs of edges that are both there. Out: beliefs of edges, a tape, and
from adjoints of beliefs those of scores. Stage: below inference. The schedule is that of ``Groups(("pair", "tree"),
uniform_start=True)``: pairs send to edges, edges to the tree, the tree to edges. Its messages come last, so beliefs are
marginals of a tree model of the scores that arrived, and add up to 1 for each token after any number of sweeps
(Gormley, Dredze & Eisner 2015). The messages are those of ``binary_pairs`` and of the two programs
of trees; what is here is the order in which they are called, so that nothing is done between them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from loopwise.compiled.arrays import copied, copy_into, fill, filled, floats, integers, zeros
from loopwise.compiled.decorators import LINKED, fused_callee, fused_kernel
from loopwise.graph.structured.kernels.eisner import charts_size, inside_outside, inside_outside_in_range, pull_back
from loopwise.graph.structured.kernels.eisner_decode import best_projective
from loopwise.graph.structured.kernels.matrix_tree import spanning_outside, spanning_pull_back
from loopwise.graph.structured.kernels.spanning_decode import best_spanning
from loopwise.graph.structured.kernels.tree_columns import EdgeAdjoints, read_columns
from loopwise.inference.messages.stepwise.kernels.binary_pairs import Pairs, pairs_back, pairs_send
from loopwise.inference.messages.stepwise.kernels.sweeps import Weights, table_weights

LEAST = 1e-140  # two numbers of a cell that are at least this may be multiplied
SURE = 600.0  # log-odds beyond this count as this in beliefs of pairs


class Sentences(NamedTuple):
    """Edges and pairs of sentences, one sentence after another."""

    lengths: Any  # [sentences] tokens
    edge_start: Any  # [sentences + 1]
    heads: Any  # [edges]
    mods: Any
    pair_start: Any  # [sentences + 1]
    first: Any  # [pairs] edges, numbered within their sentence
    second: Any
    kind: Any  # Projective(), AnyScores() or Crossing(): what is not asked for is not compiled
    single_root: Any


class Projective(NamedTuple):
    """Trees without crossing edges (:mod:`loopwise.graph.structured.kernels.eisner`), in the probability domain. A
    sentence whose numbers leave it is given up, and has ``in_log`` set."""


class AnyScores(NamedTuple):
    """The sentences that were given up, with logs where they are needed: they are rare, and take long to compile."""


class Crossing(NamedTuple):
    """All trees (``matrix_tree``). They keep their weights, and the penalty of root edges, in the
    charts."""


class EdgesOfTree(NamedTuple):
    """The edges of one sentence of ``n`` tokens, and which trees they may make."""

    n: Any
    heads: Any  # [edges]
    mods: Any
    kind: Any
    single_root: Any


class TreeTape(NamedTuple):
    """What a run leaves; sweep t is in row t, or t % 2 where only the last two are kept."""

    arrived: Any  # [sweeps, edges] log-odds that the tree heard
    on: Any  # [sweeps, edges] log p
    off: Any  # [sweeps, edges] log(1 - p)
    heard: Any  # [sweeps, 2, pairs] log-odds that pairs heard
    sent: Any  # [2, pairs] the last log-odds that pairs sent
    charts: Any  # [chart_start[-1]] those of all sweeps of a sentence, or of its last; empty unless kept
    in_log: Any  # [sweeps, sentences] whether they hold logs
    chart_start: Any  # [sentences + 1]
    used: Any  # [sentences] sweeps
    log_partition: Any  # [sentences] of the tree in the last sweep; -inf: no tree


@fused_callee
def _dense(n, heads, mods, values, empty):
    """A flat matrix (head, modifier), ``empty`` where there is no edge."""
    matrix = np.empty((n + 1) * (n + 1))
    fill(matrix, empty)
    for edge in range(heads.shape[0]):
        matrix[heads[edge] * (n + 1) + mods[edge]] = values[edge]
    return matrix


def _outside(kind, scores, n, single_root, charts, gradient):
    """log Z, whether charts hold logs (or should); log dZ/dw of every edge into ``gradient``."""


@overload(_outside, jit_options=LINKED)
def _choose_outside(kind, scores, n, single_root, charts, gradient):
    def projective(kind, scores, n, single_root, charts, gradient):
        return inside_outside_in_range(scores, n, single_root, charts, gradient)

    def any_scores(kind, scores, n, single_root, charts, gradient):
        return inside_outside(scores, n, single_root, charts, gradient)

    def crossing(kind, scores, n, single_root, charts, gradient):
        size = (n + 1) * (n + 1)
        log_partition, charts[size] = spanning_outside(scores, n, single_root, charts[:size], gradient)
        return log_partition, True

    return {Projective: projective, AnyScores: any_scores, Crossing: crossing}[kind.instance_class]


def _outside_back(kind, scores, n, single_root, charts, in_log, given, adjoint):
    """Adjoints of the scores from what is ``given`` of the edges."""


@overload(_outside_back, jit_options=LINKED)
def _choose_outside_back(kind, scores, n, single_root, charts, in_log, given, adjoint):
    def projective(kind, scores, n, single_root, charts, in_log, given, adjoint):
        pull_back(scores, n, single_root, charts, None, given, floats(charts_size(n)), adjoint)

    def any_scores(kind, scores, n, single_root, charts, in_log, given, adjoint):
        pull_back(scores, n, single_root, charts, in_log, given, floats(charts_size(n)), adjoint)

    def crossing(kind, scores, n, single_root, charts, in_log, given, adjoint):
        size = (n + 1) * (n + 1)
        spanning_pull_back(scores, n, charts[:size], charts[size], given, adjoint)

    return {Projective: projective, AnyScores: any_scores, Crossing: crossing}[kind.instance_class]


def _is_done(kind, in_log, sentence):
    """Whether an earlier run has answered this sentence."""


@overload(_is_done, jit_options=LINKED)
def _choose_is_done(kind, in_log, sentence):
    def given_up(kind, in_log, sentence):
        left = 0
        for row in range(in_log.shape[0]):
            left += in_log[row, sentence]
        return left == 0

    return given_up if kind.instance_class is AnyScores else lambda kind, in_log, sentence: False


def _best_tree(kind, scores, n, single_root, heads):
    """The largest sum of scores of a tree, whose heads are left in ``heads``."""


@overload(_best_tree, jit_options=LINKED)
def _choose_best_tree(kind, scores, n, single_root, heads):
    def projective(kind, scores, n, single_root, heads):
        return best_projective(scores, n, single_root, floats(charts_size(n)), heads)

    def crossing(kind, scores, n, single_root, heads):
        return best_spanning(scores, n, single_root, heads)

    return projective if kind.instance_class is Projective else crossing


@fused_callee
def _tree_sweep(tree, arrived, charts, on, off, messages):
    """log Z (-inf: no tree), whether charts hold logs; log p, log(1 - p) and log-odds messages of every edge."""
    n, heads, mods = tree.n, tree.heads, tree.mods
    size = (n + 1) * (n + 1)
    scores, gradient = _dense(n, heads, mods, arrived, -np.inf), floats(size)
    log_partition, in_log = _outside(tree.kind, scores, n, tree.single_root, charts, gradient)
    if log_partition > -np.inf:
        log_on, log_off, sent = floats(size), floats(size), floats(size)
        read_columns(scores, gradient, n, log_on, log_off, sent)
        for edge in range(heads.shape[0]):
            cell = heads[edge] * (n + 1) + mods[edge]
            on[edge], off[edge], messages[edge] = log_on[cell], log_off[cell], sent[cell]
    return log_partition, in_log


@fused_callee
def _tree_back(tree, arrived, charts, in_log, on, off, of_marginal, of_odds, out):
    """Adjoints of what arrived from those of p and of logit p, after :func:`_tree_sweep` with these charts."""
    n, heads, mods = tree.n, tree.heads, tree.mods
    size = (n + 1) * (n + 1)
    scores, marginal = _dense(n, heads, mods, arrived, -np.inf), _dense(n, heads, mods, of_marginal, 0.0)
    log_on, log_off = _dense(n, heads, mods, on, -np.inf), _dense(n, heads, mods, off, 0.0)
    odds, back = _dense(n, heads, mods, of_odds, 0.0), floats(size)
    given = EdgeAdjoints(log_on, log_off, marginal, odds)
    _outside_back(tree.kind, scores, n, tree.single_root, charts, in_log, given, back)
    for edge in range(heads.shape[0]):
        out[edge] = back[heads[edge] * (n + 1) + mods[edge]]


@fused_callee
def _states(edges):
    """State OFF of the variable of each edge."""
    states = integers(edges.shape[0])
    for place in range(edges.shape[0]):
        states[place] = 2 * edges[place]
    return states


@fused_callee
def _pair_weights(scores):
    """Tables that are 1 but for both ON."""
    theta = np.zeros((1, scores.shape[0], 4))
    for pair in range(scores.shape[0]):
        theta[0, pair, 3] = scores[pair]
    weights = Weights(theta, floats(theta.shape), np.empty((1, scores.shape[0]), np.bool_))
    table_weights(theta, LEAST, weights.weight, weights.tame)
    return weights


@fused_callee
def _add_up(arrived, messages, sums, counts):
    """What edges have in all, as ``binary_pairs`` reads it: certain ones have values ruled out."""
    for edge in range(arrived.shape[0]):
        total = arrived[edge] + messages[edge]
        sums[0, 2 * edge], sums[0, 2 * edge + 1] = 0.0, total if abs(total) < np.inf else 0.0
        counts[0, 2 * edge], counts[0, 2 * edge + 1] = 1 if total == np.inf else 0, 1 if total == -np.inf else 0


@fused_callee
def _arrive(unary, part, count, arrived):
    """Scores and messages of pairs; those that rule out a value are infinite."""
    for edge in range(unary.shape[0]):
        total = unary[edge] + part[0, 2 * edge + 1]
        if count[0, 2 * edge] > 0:
            total = np.inf
        arrived[edge] = total if count[0, 2 * edge + 1] == 0 else -np.inf


@fused_callee
def _largest_move(on, before):
    moved = 0.0
    for edge in range(on.shape[0]):
        moved = max(moved, abs(math.exp(on[edge]) - math.exp(before[edge])))
    return moved


@fused_kernel
def run_trees(sentences, unary, scores, iterations, tolerance, tape):
    """At most ``iterations`` sweeps of each sentence, fewer if no belief moves by more than ``tolerance``. Of
    :class:`AnyScores`, only the sentences that a run of :class:`Projective` gave up.

    O(sweeps (n^3 + pairs)) a sentence."""
    rows = tape.arrived.shape[0]
    all_rows = filled(1, 0)
    for s in range(sentences.lengths.shape[0]):
        n, begin, end = sentences.lengths[s], sentences.edge_start[s], sentences.edge_start[s + 1]
        low, high = sentences.pair_start[s], sentences.pair_start[s + 1]
        heads, mods, mine = sentences.heads[begin:end], sentences.mods[begin:end], unary[begin:end]
        tree = EdgesOfTree(n, heads, mods, sentences.kind, sentences.single_root)
        if _is_done(sentences.kind, tape.in_log, s):
            continue
        tape.used[s], tape.log_partition[s] = 0, 0.0
        for row in range(rows):
            tape.in_log[row, s] = False
        if n == 0:
            continue
        pairs = Pairs(_states(sentences.first[low:high]), _states(sentences.second[low:high]), LEAST)
        weights, edges, size = _pair_weights(scores[low:high]), end - begin, charts_size(n)
        sums, counts = np.zeros((1, 2 * edges)), np.zeros((1, 2 * edges), np.int64)
        part, count = np.zeros((1, 2 * edges)), np.zeros((1, 2 * edges), np.int64)
        odds, heard, messages = np.zeros((1, 2, high - low)), np.empty((1, 2, high - low)), floats(edges)
        kept, charts = tape.charts[tape.chart_start[s] : tape.chart_start[s + 1]], floats(0)
        if kept.shape[0] == 0:
            charts = floats(size)
        for sweep in range(iterations):
            row = sweep % rows
            if high > low:
                pairs_send(all_rows, pairs, weights, sums, counts, odds, heard, part, count)
                for side in range(2):
                    copy_into(tape.heard[row, side, low:high], heard[0, side])
            _arrive(mine, part, count, tape.arrived[row, begin:end])
            if kept.shape[0] > 0:
                place = size * sweep if kept.shape[0] > size else 0
                charts = kept[place : place + size]
            on, off = tape.on[row, begin:end], tape.off[row, begin:end]
            tape.log_partition[s], tape.in_log[row, s] = _tree_sweep(
                tree, tape.arrived[row, begin:end], charts, on, off, messages
            )
            tape.used[s] = sweep + 1
            if tape.log_partition[s] == -np.inf:
                fill(on, -np.inf)
                fill(off, 0.0)
                break
            if sweep > 0 and tolerance > 0.0 and _largest_move(on, tape.on[(sweep - 1) % rows, begin:end]) <= tolerance:
                break
            if sweep + 1 < iterations:
                _add_up(tape.arrived[row, begin:end], messages, sums, counts)
        for side in range(2):
            copy_into(tape.sent[side, low:high], odds[0, side])


@fused_kernel
def pull_back_trees(sentences, scores, tape, adjoint, of_unary, of_scores):
    """Adjoints of all scores from ``adjoint``, that of the beliefs: one product with a tree covariance a sweep.

    ``tape``: of a run that kept every sweep. Charts of one sweep only are filled again. About twice the forward."""
    all_rows = filled(1, 0)
    for s in range(sentences.lengths.shape[0]):
        n, begin, end = sentences.lengths[s], sentences.edge_start[s], sentences.edge_start[s + 1]
        low, high = sentences.pair_start[s], sentences.pair_start[s + 1]
        if n == 0 or tape.log_partition[s] == -np.inf:
            continue
        heads, mods, edges, size = sentences.heads[begin:end], sentences.mods[begin:end], end - begin, charts_size(n)
        tree = EdgesOfTree(n, heads, mods, sentences.kind, sentences.single_root)
        pairs = Pairs(_states(sentences.first[low:high]), _states(sentences.second[low:high]), LEAST)
        weights, of_theta = _pair_weights(scores[low:high]), np.zeros((1, high - low, 4))
        of_marginal, of_odds, moved = copied(adjoint[begin:end], edges), zeros(edges), floats(edges)
        of_sums, of_heard, carried = np.zeros((1, 2 * edges)), np.zeros((1, 2 * edges)), np.zeros((1, 2, high - low))
        charts, total = tape.charts[tape.chart_start[s] : tape.chart_start[s + 1]], zeros(edges)
        for sweep in range(tape.used[s] - 1, -1, -1):
            arrived, on, off = tape.arrived[sweep, begin:end], tape.on[sweep, begin:end], tape.off[sweep, begin:end]
            own = charts[size * sweep : size * sweep + size] if charts.shape[0] > size else charts
            if charts.shape[0] == size and sweep != tape.used[s] - 1:
                _, tape.in_log[sweep, s] = _tree_sweep(tree, arrived, own, on, off, moved)
            for edge in range(edges):  # what is certain does not move
                of_odds[edge] = of_odds[edge] if abs(on[edge] - off[edge]) < np.inf else 0.0
            _tree_back(tree, arrived, own, tape.in_log[sweep, s], on, off, of_marginal, of_odds, moved)
            for edge in range(edges):
                of_marginal[edge] = of_heard[0, 2 * edge] = of_heard[0, 2 * edge + 1] = 0.0
                of_sums[0, 2 * edge + 1] = moved[edge]
                total[edge] += moved[edge]
            if high > low:
                heard = tape.heard[sweep : sweep + 1, :, low:high]
                pairs_back(all_rows, pairs, weights, heard, of_sums, carried, of_heard, of_theta)
                for edge in range(edges):
                    of_odds[edge] = of_heard[0, 2 * edge + 1]
        copy_into(of_unary[begin:end], total)
        copy_into(of_scores[low:high], of_theta[0, :, 3])


@fused_callee
def _entropy(probability):
    return -probability * math.log(probability) if probability > 0.0 else 0.0


@fused_callee
def _pair_belief(one, two, score):
    """Of (OFF, OFF), (ON, OFF), (OFF, ON), (ON, ON), from log-odds that both edges send."""
    one, two = min(max(one, -SURE), SURE), min(max(two, -SURE), SURE)
    both = one + two + score
    top = max(max(0.0, one), max(two, both))
    cells = (math.exp(-top), math.exp(one - top), math.exp(two - top), math.exp(both - top))
    total = cells[0] + cells[1] + cells[2] + cells[3]
    return cells[0] / total, cells[1] / total, cells[2] / total, cells[3] / total


@fused_kernel
def bethe_values(sentences, unary, scores, tape, values, joint):
    r"""The Bethe approximation of log Z of each sentence after its last sweep, and beliefs b(ON, ON) of its pairs.

    The tree's entropy is :math:`\log Z_T-\sum_e p_e a_e`; every edge is in the tree and in its pairs, so its own
    entropy is taken off once a pair."""
    rows = tape.arrived.shape[0]
    for s in range(sentences.lengths.shape[0]):
        begin, end = sentences.edge_start[s], sentences.edge_start[s + 1]
        row = (tape.used[s] - 1) % rows
        arrived, on, off = tape.arrived[row, begin:end], tape.on[row, begin:end], tape.off[row, begin:end]
        value = tape.log_partition[s]
        for edge in range(end - begin):
            p = math.exp(on[edge])
            value += p * (unary[begin + edge] - arrived[edge]) if p > 0.0 else 0.0
        for pair in range(sentences.pair_start[s], sentences.pair_start[s + 1]):
            a, b = sentences.first[pair], sentences.second[pair]
            one, two = on[a] - off[a] - tape.sent[0, pair], on[b] - off[b] - tape.sent[1, pair]
            none, only_one, only_two, both = _pair_belief(one, two, scores[pair])
            joint[pair] = both
            value += both * scores[pair] + _entropy(none) + _entropy(only_one) + _entropy(only_two) + _entropy(both)
            value -= _entropy(math.exp(on[a])) + _entropy(math.exp(off[a]))
            value -= _entropy(math.exp(on[b])) + _entropy(math.exp(off[b]))
        values[s] = value


@fused_kernel
def best_trees(sentences, scores, heads, possible):
    """The tree of the highest sum of ``scores`` of edges: the head of each token, sentence after sentence; ``possible``
    is False of sentences whose edges hold no tree."""
    at = 0
    for s in range(sentences.lengths.shape[0]):
        n, begin, end = sentences.lengths[s], sentences.edge_start[s], sentences.edge_start[s + 1]
        if n > 0:
            dense = _dense(n, sentences.heads[begin:end], sentences.mods[begin:end], scores[begin:end], -np.inf)
            found = filled(n + 1, 0)
            possible[s] = _best_tree(sentences.kind, dense, n, sentences.single_root, found) > -np.inf
            copy_into(heads[at : at + n], found[1:])
        at += n
