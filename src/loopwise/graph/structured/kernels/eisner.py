"""Projective trees: log Z, edge marginals, messages, and the pull-back of any of them, one sentence or many.

In: scores (log weights) of edges, a dense matrix ``[n + 1, n + 1]`` flattened: cell ``h * (n + 1) + m`` is the edge
from head h to modifier m; row 0 is the root; -inf is a pruned edge, +inf one that must be there; column 0 and the
diagonal are not read. Out: see each function; all matrices are flat and of that shape. Below the stages.

Eisner's program (spec of the parser, section 3) runs on probabilities scaled column by column, and again in the log
domain where those leave the range of float64: scores of +-1e4 are fine. O(n^3) time, O(n^2) memory, both ways.

For one sentence, from another kernel::

    charts, tangents = floats(charts_size(n)), floats(charts_size(n))
    log_z, in_log = inside_outside(scores, n, single_root, charts, log_gradient)
    read_columns(scores, log_gradient, n, log_on, log_off, messages)          # log p, log(1 - p), log-odds messages
    given = EdgeAdjoints(log_on, log_off, of_marginal, of_logit)
    pull_back(scores, n, single_root, charts, in_log, given, tangents, adjoint)   # adjoint of the scores

``pull_back`` with ``of_marginal = v`` and ``of_logit = 0`` is the covariance product C v; with ``of_logit = x`` it adds
the pull-back of log(p / (1 - p)). Messages are logit p - a, so their pull-back is ``pull_back(of_logit=obar) - obar``.
The charts of ``inside_outside`` must be those given to ``pull_back``.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.arithmetic import LOG_SUM
from loopwise.compiled.arrays import copy_into, floats, integers, zeros
from loopwise.compiled.decorators import callee, kernel
from loopwise.compiled.elementary import exp_all, log_all
from loopwise.graph.structured.kernels.eisner_charts import (
    GRADIENT,
    MATRICES,
    WEIGHT,
    inside,
    inside_tangent,
    outside,
    outside_tangent,
)
from loopwise.graph.structured.kernels.eisner_log import (
    inside_log,
    inside_log_tangent,
    outside_log,
    outside_log_tangent,
)
from loopwise.graph.structured.kernels.tree_columns import (
    LEAST_OFF,
    LEAST_ON,
    column_seeds,
    find_tops,
    finish_adjoint,
    given_of,
    leave_out,
    read_columns,
    relative_direction,
)

GROWTH = 6.75  # there are about 6.75^n projective trees: a column of more weights is scaled down by so many of them
TRIALS = 2  # in the probability domain, the second with columns scaled by what Z came to
RANGE = 1e140  # Z and dZ/dw within this and its inverse are trusted: products of two such numbers stay in float64
LOST = 1e-292  # what underflows is below 1e-308, and must be below the rounding of what is trusted
LEAST_TREE = -650.0  # nats: what weighs more is a normal number
LEAST_WEIGHT = -660.0  # nats below the largest of its column: a smaller weight would not be a normal number


@kernel
def charts_size(n):
    """Length of the buffers ``charts`` and ``tangents`` of a sentence of ``n`` tokens."""
    return MATRICES * (n + 1) * (n + 1)


@kernel
def load_weights(scores, n, charts):
    """Log weights into the first matrix, the largest of each column 0; what they are short of the scores, in all, or
    -inf if no tree is left. Every tree has one edge in each column, so columns may be scaled freely."""
    width, size, shift = n + 1, (n + 1) * (n + 1), 0.0
    weights, best, top = charts[WEIGHT * size : (WEIGHT + 1) * size], integers(width), floats(width)
    copy_into(weights, scores)
    leave_out(weights, width, -np.inf)
    find_tops(weights, width, best, top)
    top[0] = 0.0
    for column in range(1, width):
        if top[column] == -np.inf or (top[column] == np.inf and not _keep_forced(weights, width, column)):
            return -np.inf
        top[column] = 0.0 if top[column] == np.inf else top[column]
        shift += top[column]
    for head in range(width):
        for column in range(width):
            weights[np.uint64(head * width + column)] -= top[column]
    return shift


@callee
def _leave_logs(charts, n):
    """Log weights into weights of a scale at which charts hold numbers of the order of 1; the log of what was divided
    out, or -inf if a weight is too small for that (the charts are then spoilt).

    There are S equal weights in a column of flat scores, and 6.75^n trees; one weight of 1 in a peaked one, and one
    tree; between the two, a tree is worth as much as if each column had its mean weight throughout."""
    width, size, shift = n + 1, (n + 1) * (n + 1), 0.0
    weights, total, count = charts[WEIGHT * size : (WEIGHT + 1) * size], zeros(width), zeros(width)
    for at in range(size):
        if -np.inf < weights[at] < LEAST_WEIGHT:
            return -np.inf
    exp_all(weights)
    for head in range(width):
        for column in range(width):
            total[column] += weights[np.uint64(head * width + column)]
            count[column] += 1.0 if weights[np.uint64(head * width + column)] > 0.0 else 0.0
    for column in range(1, width):
        total[column] = max(1.0, total[column] * min(1.0, GROWTH / count[column]))
        shift += np.log(total[column])
    total[0] = 1.0
    for head in range(width):
        for column in range(width):
            weights[np.uint64(head * width + column)] /= total[column]
    return shift


@callee
def _keep_forced(weights, width, column):
    """Leaves a column its edge that must be there, with log weight 0; False if there are several."""
    forced = 0
    for head in range(width):
        at = head * width + column
        forced += weights[at] == np.inf
        weights[at] = 0.0 if weights[at] == np.inf else -np.inf
    return forced == 1


@callee
def _trusted(charts, scores, n, least):
    """Whether what was lost on the way in the probability domain is nothing beside dZ/dw of any edge that may be.

    Of an edge that is in no tree dZ/dw is 0, and that is right if nothing can have underflowed: a tree is a product of
    one weight a column."""
    size, smallest = (n + 1) * (n + 1), 1.0
    for column in range(1, n + 1):
        for head in range(n + 1):
            at = head * (n + 1) + column
            if head != column and scores[at] > -np.inf:
                smallest = min(smallest, charts[WEIGHT * size + at])
    nothing_lost = n * np.log(smallest) > LEAST_TREE
    for column in range(1, n + 1):
        for head in range(n + 1):
            at = head * (n + 1) + column
            value = charts[GRADIENT * size + at]
            fine = least < value < RANGE or (value == 0.0 and nothing_lost)
            if head != column and scores[at] > -np.inf and not fine:
                return False
    return True


@callee
def _in_probabilities(scores, n, single_root, charts):
    """Charts of log weights that become those of weights; log Z short of the shift of the log weights, or -inf if they
    do not fit float64.

    The second trial has columns scaled so that Z is 1. What had underflowed by then is a product below 1e-308 times one
    of at most the inverse of the first Z."""
    size, least = (n + 1) * (n + 1), 1.0 / RANGE
    shift = _leave_logs(charts, n)
    if shift == -np.inf:
        return -np.inf
    for _ in range(TRIALS):
        total = inside(charts, n, single_root)
        if least < total < RANGE:
            outside(charts, n, single_root)
            if _trusted(charts, scores, n, least):
                return shift + np.log(total)
        if not 0.0 < total < np.inf:
            return -np.inf
        least = max(least, LOST / total)
        scale = total ** (1.0 / n)
        for at in range(WEIGHT * size, (WEIGHT + 1) * size):
            charts[at] /= scale
        shift += n * np.log(scale)
    return -np.inf


@kernel
def inside_outside_in_range(scores, n, single_root, charts, log_gradient):
    """:func:`inside_outside` in the probability domain alone: log Z, and whether numbers left the range of float64 (or
    there is no tree). Then nothing else that it leaves means anything."""
    size = (n + 1) * (n + 1)
    shift = load_weights(scores, n, charts)
    if shift == -np.inf:
        return -np.inf, False
    log_total = _in_probabilities(scores, n, single_root, charts)
    if log_total == -np.inf:
        return -np.inf, True
    copy_into(log_gradient, charts[GRADIENT * size : (GRADIENT + 1) * size])
    log_all(log_gradient)
    return shift + log_total, False


@kernel
def inside_outside(scores, n, single_root, charts, log_gradient):
    """log Z (-inf: no tree), whether the charts hold logs, and into ``log_gradient`` log dZ/dw of every edge up to one
    constant a column (which :func:`read_columns` cancels). For a pruned edge of less than 1e-140 it may be -inf."""
    size = (n + 1) * (n + 1)
    log_z, left = inside_outside_in_range(scores, n, single_root, charts, log_gradient)
    if not left:
        return log_z, False
    shift = load_weights(scores, n, charts)
    log_total = inside_log(charts, n, single_root, LOG_SUM)
    if log_total == -np.inf:
        return -np.inf, True
    outside_log(charts, n, single_root)
    copy_into(log_gradient, charts[GRADIENT * size : (GRADIENT + 1) * size])
    return shift + log_total, True


@callee
def _tangent_of_weights(charts, n, single_root, direction, tangents, moved):
    """d log G along ``direction`` of the scores, for charts of weights."""
    size = (n + 1) * (n + 1)
    for at in range(size):
        tangents[WEIGHT * size + at] = direction[at] * charts[WEIGHT * size + at]
    inside_tangent(charts, tangents, n, single_root)
    outside_tangent(charts, tangents, n, single_root)
    for at in range(size):
        value = charts[GRADIENT * size + at]
        moved[at] = tangents[GRADIENT * size + at] / value if value > 0.0 else 0.0


@callee
def _tangent_of_logs(charts, n, single_root, direction, tangents, moved):
    """The same for charts of logs."""
    size = (n + 1) * (n + 1)
    for at in range(size):
        tangents[WEIGHT * size + at] = direction[at]
    inside_log_tangent(charts, tangents, n, single_root)
    outside_log_tangent(charts, tangents, n, single_root)
    for at in range(size):
        moved[at] = tangents[GRADIENT * size + at]


@callee
def gradient_tangent(charts, n, single_root, in_log, direction, tangents, moved):
    """d log G along ``direction`` of the scores, for the charts of :func:`inside_outside`; ``in_log`` is None where
    they never hold logs, and then nothing of these is compiled."""
    if in_log is None:
        _tangent_of_weights(charts, n, single_root, direction, tangents, moved)
    elif in_log:
        _tangent_of_logs(charts, n, single_root, direction, tangents, moved)
    else:
        _tangent_of_weights(charts, n, single_root, direction, tangents, moved)


@kernel
def pull_back(scores, n, single_root, charts, in_log, given, tangents, adjoint):
    """Adjoints of the scores from those of the marginals p and of logit p: one Hessian-vector product. ``in_log``: as
    :func:`inside_outside` told, or None after :func:`inside_outside_in_range`.

    Near-certain edges and temperature 1e-4 are fine; adjoints of log-odds above 500 or below -600 are 0 (what they
    could move is below the smallest float64)."""
    size = (n + 1) * (n + 1)
    seeds, direction, p = floats(size), floats(size), floats(size)
    column_seeds(scores, given, n, LEAST_ON, LEAST_OFF, p, seeds)
    relative_direction(seeds, p, n, direction)
    gradient_tangent(charts, n, single_root, in_log, direction, tangents, adjoint)
    finish_adjoint(scores, p, seeds, adjoint, n, adjoint)


@kernel
def forward_batch(trees, charts, kept, in_log, gradient, found, share):
    """Every ``share[1]``-th sentence from ``share[0]`` on; calls of different shares may run in different threads.

    ``charts``: where ``kept``, of ``MATRICES * start[-1]`` numbers, for the backward to find; else room for the longest
    sentence. Fills ``found`` and ``in_log`` ``[sentences]`` and, flat, log dZ/dw."""
    start, log_on, log_off, messages = trees.start, found.log_on, found.log_off, found.messages
    for sentence in range(share[0], trees.lengths.shape[0], share[1]):
        n, first, end = trees.lengths[sentence], start[sentence], start[sentence + 1]
        own, slope, scores = charts[MATRICES * first if kept else 0 :], gradient[first:end], trees.scores[first:end]
        log_z, in_log[sentence] = inside_outside(scores, n, trees.single_root, own, slope)
        found.log_partition[sentence] = log_z
        if log_z > -np.inf:
            read_columns(scores, slope, n, log_on[first:end], log_off[first:end], messages[first:end])


@kernel
def backward_batch(trees, charts, kept, in_log, given, tangents, adjoint, share):
    """:func:`pull_back` of the same sentences; charts that were not ``kept`` are filled again. ``tangents``: room for
    the longest sentence."""
    for sentence in range(share[0], trees.lengths.shape[0], share[1]):
        n, first, end = trees.lengths[sentence], trees.start[sentence], trees.start[sentence + 1]
        own, scores = charts[MATRICES * first if kept else 0 :], trees.scores[first:end]
        if not kept:
            inside_outside(scores, n, trees.single_root, own, adjoint[first:end])
        mine = given_of(given, first, end)
        pull_back(scores, n, trees.single_root, own, in_log[sentence], mine, tangents, adjoint[first:end])
