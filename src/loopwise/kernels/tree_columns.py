"""What projective and other trees share: every token has one head, so each column of edges is one choice.

In: edge scores a and the logs of G = dZ/dw, both flat ``[(n + 1)^2]`` (head, modifier). Out: log marginals, messages,
and the adjoints that inside-outside is to be pulled back from. Below the stages.

G of an edge into m does not depend on any score of column m, so p = softmax over the column of a + log G, whatever
constant each column of G is off by. log(1 - p) is a log-sum-exp over the other heads, never a subtraction (spec of the
parser, section 3).
"""

from __future__ import annotations

import numpy as np
from numba import njit

LEAST_ON, LEAST_OFF = -600.0, -500.0  # nats: adjoints of log-odds beyond are 0; their weights would leave float64
SMALLEST = 1e-262  # exp(LEAST_ON), rounded


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def _best_head(scores, log_gradient, column, width):
    best, top = -1, -np.inf
    for head in range(width):
        value = scores[head * width + column] + log_gradient[head * width + column]
        if head != column and value > top:
            best, top = head, value
    return best, top


@njit(cache=True, nogil=True, error_model="numpy")
def read_columns(scores, log_gradient, n, log_on, log_off, messages):
    """log p, log(1 - p) and the log-odds that the tree sends each edge, log G - log sum over other heads of w G.

    A score of +inf is an edge that must be there, -inf one that must not; both are sent the right message. Cells that
    are no edge (into 0, into themselves) get 0, 0, 0 for ``log_off`` and ``messages`` and -inf for ``log_on``."""
    width = n + 1
    for head in range(width):
        for column in (0, head):
            at = head * width + column
            log_on[at], log_off[at], messages[at] = -np.inf, 0.0, 0.0
    for column in range(1, width):
        best, top = _best_head(scores, log_gradient, column, width)
        forced = top == np.inf
        prefix = small = 0.0
        for head in range(width):  # sums over the heads before: those of the heads after are added on the way back
            at = head * width + column
            if head != column and not forced:
                log_on[at] = np.exp(scores[at] + log_gradient[at] - top)
                log_off[at] = prefix
                prefix += log_on[at]
                small += log_on[at] if head != best else 0.0
        rest, total = top + np.log(small), top + np.log1p(small)
        if not small > SMALLEST:  # of what the others weigh, little or nothing is left in units of the best
            rest, total = _sum_of_others(scores, log_gradient, column, width, best), top
        suffix = 0.0
        for head in range(width - 1, -1, -1):
            at = head * width + column
            if head == column:
                continue
            others = top
            if head == best:
                others = rest
            elif not forced:
                others = top + np.log(log_off[at] + suffix)
            messages[at] = log_gradient[at] - others if log_gradient[at] > -np.inf else -np.inf
            if forced:
                log_on[at], log_off[at] = (0.0, -np.inf) if head == best else (-np.inf, 0.0)
            else:
                suffix += log_on[at]
                log_on[at], log_off[at] = scores[at] + log_gradient[at] - total, min(others - total, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def column_seeds(scores, log_on, log_off, marginal_adjoint, logit_adjoint, n, least_on, least_off, p, seeds):
    """Adjoints of a + log G, the inputs of each column's softmax; each column of them sums to 0.

    From those of p: s_e = p_e (pbar_e - sum_f p_f pbar_f). From those of logit p:
    s_e = x_e - p_e sum_{f != e} x_f / (1 - p_f). Both are centred on the likeliest head, so that near-certain edges
    cancel nothing. Adjoints of log-odds below ``least_on`` or above ``-least_off`` nats are left out. ``p`` is filled
    besides. O(n^2)."""
    width = n + 1
    for place in range(width * width):
        seeds[place] = p[place] = 0.0
    for column in range(1, width):
        best, top = -1, -np.inf
        for head in range(width):
            if head != column and log_on[head * width + column] > top:
                best, top = head, log_on[head * width + column]
        chief = best * width + column
        mean = others = 0.0
        for head in range(width):
            at = head * width + column
            if head == column:
                continue
            p[at] = np.exp(log_on[at])
            if not np.isfinite(scores[at]):
                continue
            mean += p[at] * (marginal_adjoint[at] - marginal_adjoint[chief])
            if logit_adjoint[at] != 0.0 and log_on[at] > least_on and log_off[at] > least_off:
                seeds[at] = logit_adjoint[at]
                if head != best:  # of probability at most 1/2: nothing is large
                    others += logit_adjoint[at] * np.exp(-log_off[at])
        first = seeds[chief]
        for head in range(width):
            at = head * width + column
            if head == column or not np.isfinite(scores[at]):
                continue
            around = others
            if head != best:
                if seeds[at] != 0.0:
                    around -= seeds[at] * np.exp(-log_off[at])
                if first != 0.0:
                    seeds[at] -= first * np.exp(log_on[at] - log_off[chief])
            seeds[at] += p[at] * (marginal_adjoint[at] - marginal_adjoint[chief] - mean - around)


@njit(cache=True, nogil=True, error_model="numpy")
def finish_adjoint(scores, p, seeds, moved, n, adjoint):
    """Adjoints of the scores: s_f + p_f d log G_f, where ``moved`` is d log G along s / p; 0 for hard edges."""
    for at in range((n + 1) * (n + 1)):
        adjoint[at] = seeds[at] + p[at] * moved[at] if np.isfinite(scores[at]) else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def relative_direction(seeds, p, n, direction):
    """s / p, the direction in log weights along which d log G gives the pull-back (P(e, f) is symmetric)."""
    for at in range((n + 1) * (n + 1)):
        direction[at] = seeds[at] / p[at] if p[at] > SMALLEST else 0.0
