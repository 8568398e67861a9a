"""Sums over projective trees and their marginals, against all trees."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.eisner import charts_size, inside_outside, pull_back
from loopwise.graph.structured.kernels.tree_columns import EdgeAdjoints, read_columns
from oracles.differences import slopes
from oracles.trees import edge_indicators, every_tree, log_sum, tree_scores

TOKENS, CELLS = 4, 25


def marginals(scores: np.ndarray, single_root: bool) -> tuple[float, np.ndarray]:
    """log Z and the probability of every edge, by all trees."""
    trees = every_tree(TOKENS, True, single_root)
    totals = tree_scores(trees, scores.reshape(TOKENS + 1, TOKENS + 1))
    log_z = log_sum(totals)
    return log_z, np.einsum("t,tij->ij", np.exp(totals - log_z), edge_indicators(trees)).reshape(-1)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("single_root", [False, True])
def test_sums_marginals_and_their_adjoint(single_root: bool, scale: float) -> None:
    rng = np.random.default_rng(13)
    scores, seed = scale * rng.normal(size=CELLS), rng.normal(size=CELLS)
    charts, gradient = np.empty(charts_size(TOKENS)), np.empty(CELLS)
    log_z, in_log = inside_outside(scores, TOKENS, single_root, charts, gradient)
    log_on, log_off, messages, adjoint = np.empty((4, CELLS))
    read_columns(scores, gradient, TOKENS, log_on, log_off, messages)
    total, expected = marginals(scores, single_root)
    edges = np.ones((TOKENS + 1, TOKENS + 1), bool)
    edges[:, 0], edges[np.diag_indices(TOKENS + 1)] = False, False
    cells = edges.reshape(-1)
    assert log_z == pytest.approx(total)
    assert np.exp(log_on[cells]) == pytest.approx(expected[cells], abs=1e-12)
    assert np.exp(log_off[cells]) == pytest.approx(1 - expected[cells], abs=1e-12)
    given = EdgeAdjoints(log_on, log_off, np.where(cells, seed, 0.0), np.zeros(CELLS))
    pull_back(scores, TOKENS, single_root, charts, in_log, given, np.empty(len(charts)), adjoint)
    by_differences = slopes(lambda x: float((seed * marginals(x, single_root)[1])[cells].sum()), scores)
    assert adjoint[cells] == pytest.approx(by_differences[cells], abs=1e-7)
