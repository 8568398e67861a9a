"""The tree factor by its kind: projective or not, one root or several, behind one set of calls.

In: scores of arcs as a flat matrix ``[(n + 1)^2]`` (head, modifier), ``structure`` bits. Out: what
:mod:`loopwise.kernels.eisner` and :mod:`loopwise.kernels.matrix_tree` compute. Below the stages. ``charts`` has room
for ``charts_size(n)`` numbers; trees that need not be projective keep their weights and the penalty of root arcs there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from loopwise.kernels.eisner import charts_size, inside_outside, pull_back
from loopwise.kernels.eisner_decode import best_projective
from loopwise.kernels.matrix_tree import spanning_outside, spanning_pull_back
from loopwise.kernels.parser_parts import PROJECTIVE, SINGLE_ROOT
from loopwise.kernels.spanning_decode import best_spanning
from loopwise.kernels.tree_columns import read_columns


@njit(nogil=True, error_model="numpy", inline="always")
def tree_forward(scores, n, structure, charts, log_on, log_off):
    """log Z (-inf: no tree) and whether the charts hold logs; log p and log(1 - p) of every cell."""
    cells = (n + 1) * (n + 1)
    gradient, messages, in_log = np.empty(cells), np.empty(cells), True
    single = structure & SINGLE_ROOT != 0
    if structure & PROJECTIVE:
        log_partition, in_log = inside_outside(scores, n, single, charts, gradient)
    else:
        log_partition, charts[cells] = spanning_outside(scores, n, single, charts[:cells], gradient)
    if log_partition > -np.inf:
        read_columns(scores, gradient, n, log_on, log_off, messages)
    return log_partition, in_log


@njit(nogil=True, error_model="numpy", inline="always")
def tree_pull_back(scores, n, structure, charts, in_log, log_on, log_off, of_marginal, of_odds, out):
    """Adjoints of the scores from those of p and of logit p, with the charts that :func:`tree_forward` filled."""
    cells = (n + 1) * (n + 1)
    if structure & PROJECTIVE:
        tangents, single = np.empty(charts_size(n)), structure & SINGLE_ROOT != 0
        pull_back(scores, n, single, charts, in_log, log_on, log_off, of_marginal, of_odds, tangents, out)
    else:
        weights, penalty = charts[:cells], charts[cells]
        spanning_pull_back(scores, n, weights, penalty, log_on, log_off, of_marginal, of_odds, out)


@njit(cache=True, nogil=True, error_model="numpy")
def tree_argmax(scores, n, structure):
    """The head of each word (entry 0: 0) in the best tree; entry 0 is -1 if there is no tree."""
    heads, single = np.zeros(n + 1, np.int64), structure & SINGLE_ROOT != 0
    if structure & PROJECTIVE:
        best = best_projective(scores, n, single, np.empty(charts_size(n)), heads)
    else:
        best = best_spanning(scores, n, single, heads)
    heads[0] = 0 if best > -np.inf else -1
    return heads
