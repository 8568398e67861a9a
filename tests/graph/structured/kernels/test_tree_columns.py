"""What is read from a column of a tree's derivatives: probabilities, messages, edges that must or must not be there."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.tree_columns import read_columns


def test_messages_are_the_odds_less_the_score() -> None:
    rng, n = np.random.default_rng(14), 3
    scores, gradient = rng.normal(size=16), rng.normal(size=16)
    log_on, log_off, messages = np.empty((3, 16))
    read_columns(scores, gradient, n, log_on, log_off, messages)
    mass = np.exp(scores + gradient).reshape(4, 4)
    mass[np.diag_indices(4)] = 0.0
    for modifier in range(1, 4):
        share = mass[:, modifier] / mass[:, modifier].sum()
        for head in range(4):
            if head != modifier:
                cell = 4 * head + modifier
                assert np.exp(log_on[cell]) == pytest.approx(share[head])
                assert np.exp(log_off[cell]) == pytest.approx(1 - share[head])
                assert messages[cell] == pytest.approx(np.log(share[head] / (1 - share[head])) - scores[cell])


def test_edges_that_are_pruned_or_required() -> None:
    scores, gradient = np.zeros(9), np.zeros(9)
    scores[1], scores[7] = -np.inf, 0.0  # of token 1: not the root, so token 2
    log_on, log_off, messages = np.empty((3, 9))
    read_columns(scores, gradient, 2, log_on, log_off, messages)
    assert (log_on[1], log_off[1]) == (-np.inf, 0.0)
    assert (log_on[7], log_off[7]) == (0.0, -np.inf) and messages[7] == np.inf
