"""What projective and other trees share: every token has one head, so each column of edges is one choice.

In: edge scores a and the logs of G = dZ/dw, both flat ``[(n + 1)^2]`` (head, modifier). Out: log marginals, messages,
and the adjoints that inside-outside is to be pulled back from. Below the stages.

G of an edge into m does not depend on any score of column m, so p = softmax over the column of a + log G, whatever
constant each column of G is off by. log(1 - p) is a log-sum-exp over the other heads, never a subtraction (spec of the
parser, section 3).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arrays import floats, integers, zeros
from loopwise.compiled.decorators import callee, kernel
from loopwise.compiled.elementary import exp_all, log_all


class TreeBatch(NamedTuple):
    """Sentences one after another: that of ``lengths[s]`` tokens has the cells ``start[s]`` to ``start[s + 1]``."""

    scores: Any
    start: Any
    lengths: Any
    single_root: Any


class TreeBeliefs(NamedTuple):
    """What inference finds of them, flat like the scores: log p, log(1 - p), messages; and log Z ``[sentences]``."""

    log_on: Any
    log_off: Any
    messages: Any
    log_partition: Any


class EdgeAdjoints(NamedTuple):
    """What is known of the edges of one sentence when it is pulled back: log p, log(1 - p), adjoints of p and of logit
    p."""

    log_on: Any
    log_off: Any
    of_marginal: Any
    of_logit: Any


LEAST_ON, LEAST_OFF = -600.0, -500.0  # nats: adjoints of log-odds beyond are 0; their weights would leave float64
SMALLEST = 1e-262  # below exp(LEAST_ON)


@callee
def _sum_of_others(scores, log_gradient, column, width, left_out):
    """log sum exp(a + log G) over the column without one head."""
    top = -np.inf
    for head in range(width):
        if head != column and head != left_out:
            top = max(top, scores[head * width + column] + log_gradient[head * width + column])
    if np.isinf(top):
        return top
    total = 0.0
    for head in range(width):
        if head != column and head != left_out:
            total += np.exp(scores[head * width + column] + log_gradient[head * width + column] - top)
    return top + np.log(total)


@callee
def leave_out(values, width, value):
    """Sets the cells that are no edge: into 0, and from a token to itself."""
    for head in range(width):
        values[head * width] = values[head * width + head] = value


@callee
def find_tops(values, width, best, top):
    """The first head of the largest value of each column, and that value."""
    for column in range(width):
        best[column], top[column] = 0, -np.inf
    for head in range(width):
        for column in range(width):
            value = values[np.uint64(head * width + column)]
            if value > top[column]:
                best[column], top[column] = head, value


@kernel
def read_columns(scores, log_gradient, n, log_on, log_off, messages):
    """log p, log(1 - p) and the log-odds that the tree sends each edge, log G - log sum over other heads of w G.

    A score of +inf is an edge that must be there, -inf one that must not; both are sent the right message. Cells that
    are no edge (into 0, into themselves) get 0 for ``log_off`` and ``messages`` and -inf for ``log_on``. All
    columns at once, row by row; those without a second head to speak of, one by one."""
    width = n + 1
    best, top = integers(width), floats(width)
    for at in range(np.uint64(width * width)):
        log_on[at] = scores[at] + log_gradient[at]
    leave_out(log_on, width, -np.inf)
    find_tops(log_on, width, best, top)
    top[0] = 0.0
    for head in range(width):
        for column in range(width):
            messages[np.uint64(head * width + column)] = log_on[np.uint64(head * width + column)] - top[column]
    exp_all(messages)
    small, around, total = zeros(width), zeros(width), floats(width)
    for head in range(width):  # sums over the heads before: those of the heads after are added on the way back
        for column in range(width):
            at = np.uint64(head * width + column)
            log_off[at] = around[column]
            around[column] += messages[at]
            small[column] += 0.0 if head == best[column] else messages[at]
    around[:] = 0.0
    for head in range(width - 1, -1, -1):
        for column in range(width):
            at = np.uint64(head * width + column)
            others = log_off[at] + around[column]
            around[column] += messages[at]
            log_off[at] = small[column] if head == best[column] else others
    log_all(log_off)
    for column in range(width):
        total[column] = np.log1p(small[column])
    for head in range(width):
        for column in range(width):
            at = np.uint64(head * width + column)
            messages[at] = log_gradient[at] - top[column] - log_off[at]
            log_on[at] -= top[column] + total[column]
            log_off[at] = min(log_off[at] - total[column], 0.0)
    for column in range(1, width):
        if not small[column] > SMALLEST:
            _read_column(scores, log_gradient, column, width, best[column], top[column], log_on, log_off, messages)
    leave_out(log_on, width, -np.inf)
    leave_out(log_off, width, 0.0)
    leave_out(messages, width, 0.0)


@callee
def _read_column(scores, log_gradient, column, width, best, top, log_on, log_off, messages):
    """A column whose best head must be there, or leaves the others little or nothing in units of its own weight."""
    forced = top == np.inf
    rest = _sum_of_others(scores, log_gradient, column, width, best)
    for head in range(width):
        at = head * width + column
        others = rest if head == best else top
        messages[at] = log_gradient[at] - others if log_gradient[at] > -np.inf else -np.inf
        if forced:
            log_on[at], log_off[at] = (0.0, -np.inf) if head == best else (-np.inf, 0.0)
        else:
            log_on[at], log_off[at] = scores[at] + log_gradient[at] - top, min(others - top, 0.0)


@callee
def column_seeds(scores, given, n, least_on, least_off, p, seeds):
    """Adjoints of a + log G, the inputs of each column's softmax; each column of them sums to 0.

    From those of p: s_e = p_e (pbar_e - sum_f p_f pbar_f). From those of logit p:
    s_e = x_e - p_e sum_{f != e} x_f / (1 - p_f). Both are centred on the likeliest head, so that near-certain edges
    cancel nothing. Adjoints of log-odds below ``least_on`` or above ``-least_off`` nats are left out. ``p`` is filled
    besides. O(n^2)."""
    width, marginal_adjoint = n + 1, given.of_marginal
    best, chief, mean = integers(width), floats(width), zeros(width)
    find_tops(given.log_on, width, best, chief)
    for column in range(width):
        chief[column] = marginal_adjoint[best[column] * width + column]
    for at in range(np.uint64(width * width)):
        p[at] = given.log_on[at]
    exp_all(p)
    for head in range(width):
        for column in range(width):
            at = np.uint64(head * width + column)
            used = np.isfinite(scores[at]) and p[at] > 0.0
            mean[column] += p[at] * (marginal_adjoint[at] - chief[column]) if used else 0.0
    for head in range(width):
        for column in range(width):
            at = np.uint64(head * width + column)
            seed = p[at] * (marginal_adjoint[at] - chief[column] - mean[column])
            seeds[at] = seed if np.isfinite(scores[at]) and p[at] > 0.0 else 0.0
    for at in range(width * width):
        if given.of_logit[at] != 0.0:
            _add_logit_seeds(scores, given, width, least_on, least_off, best, p, seeds)
            break
    leave_out(seeds, width, 0.0)


@callee
def _add_logit_seeds(scores, given, width, least_on, least_off, best, p, seeds):
    log_on, log_off, logit_adjoint = given.log_on, given.log_off, given.of_logit
    used_adjoint, odds, ratio = floats(width * width), floats(width * width), floats(width * width)
    others, first, off = zeros(width), floats(width), floats(width)
    for head in range(width):
        for column in range(width):
            at = np.uint64(head * width + column)
            used = np.isfinite(scores[at]) and log_on[at] > least_on and log_off[at] > least_off
            used_adjoint[at] = logit_adjoint[at] if used else 0.0
            odds[at] = -log_off[at] if used and head != best[column] else 0.0  # 1 / (1 - p) where p is at most 1/2
    leave_out(used_adjoint, width, 0.0)
    for column in range(width):
        chief = best[column] * width + column
        first[column], off[column] = used_adjoint[chief], log_off[chief] if used_adjoint[chief] != 0.0 else 0.0
    for head in range(width):
        for column in range(width):
            ratio[np.uint64(head * width + column)] = log_on[np.uint64(head * width + column)] - off[column]
    exp_all(odds)
    exp_all(ratio)
    for head in range(width):
        for column in range(width):
            at = np.uint64(head * width + column)
            others[column] += 0.0 if head == best[column] else used_adjoint[at] * odds[at]
    for head in range(width):
        for column in range(width):
            at = np.uint64(head * width + column)
            around, seed = others[column], used_adjoint[at]
            if head != best[column]:
                around -= used_adjoint[at] * odds[at]
                seed -= first[column] * ratio[at]
            seeds[at] += seed - p[at] * around if np.isfinite(scores[at]) else 0.0


@callee
def given_of(given, first, end):
    """What is given of one sentence among others."""
    return EdgeAdjoints(
        given.log_on[first:end], given.log_off[first:end], given.of_marginal[first:end], given.of_logit[first:end]
    )


@callee
def finish_adjoint(scores, p, seeds, moved, n, adjoint):
    """Adjoints of the scores: s_f + p_f d log G_f, where ``moved`` is d log G along s / p; 0 for hard edges."""
    for at in range((n + 1) * (n + 1)):
        adjoint[at] = seeds[at] + p[at] * moved[at] if np.isfinite(scores[at]) else 0.0


@callee
def relative_direction(seeds, p, n, direction):
    """s / p, the direction in log weights along which d log G gives the pull-back (P(e, f) is symmetric)."""
    for at in range((n + 1) * (n + 1)):
        direction[at] = seeds[at] / p[at] if p[at] > SMALLEST else 0.0
