"""The best tree that need not be projective, against all trees."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.spanning_decode import best_spanning
from oracles.trees import every_tree, tree_scores


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("tokens", [1, 2, 4, 5])
def test_it_is_the_best_of_all(tokens: int, single_root: bool) -> None:
    trees = every_tree(tokens, False, single_root)
    for seed in range(10):
        scores = 3 * np.random.default_rng(seed).normal(size=(tokens + 1, tokens + 1))
        heads = np.empty(tokens + 1, np.int64)
        best = best_spanning(scores.reshape(-1), tokens, single_root, heads)
        totals = tree_scores(trees, scores)
        assert best == pytest.approx(totals.max())
        assert heads[0] == -1 and heads[1:].tolist() == trees[int(totals.argmax())].tolist()


def test_no_tree_has_no_score() -> None:
    scores = np.zeros((4, 4))
    scores[0] = -np.inf  # nothing hangs on the root
    assert best_spanning(scores.reshape(-1), 3, False, np.empty(4, np.int64)) == -np.inf
