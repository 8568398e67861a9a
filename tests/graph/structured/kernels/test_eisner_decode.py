"""The best projective tree and drawn ones, against all trees."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.eisner import charts_size
from loopwise.graph.structured.kernels.eisner_decode import best_projective, draw_projective
from oracles.trees import every_tree, log_sum, tree_scores


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_the_best_tree(tokens: int, single_root: bool) -> None:
    trees = every_tree(tokens, True, single_root)
    for seed in range(10):
        scores = 3 * np.random.default_rng(seed).normal(size=(tokens + 1, tokens + 1))
        heads, charts = np.empty(tokens + 1, np.int64), np.empty(charts_size(tokens))
        best = best_projective(scores.reshape(-1), tokens, single_root, charts, heads)
        totals = tree_scores(trees, scores)
        assert best == pytest.approx(totals.max())
        assert heads[1:].tolist() == trees[int(totals.argmax())].tolist()


@pytest.mark.parametrize("single_root", [False, True])
def test_drawn_trees_have_their_probabilities(single_root: bool) -> None:
    rng, count = np.random.default_rng(12), 4000
    scores, trees = rng.normal(size=(4, 4)), every_tree(3, True, single_root)
    heads, charts = np.empty((count, 4), np.int64), np.empty(charts_size(3))
    log_z = draw_projective(scores.reshape(-1), 3, single_root, rng.random((count, 7)), charts, heads)
    totals = tree_scores(trees, scores)
    assert log_z == pytest.approx(log_sum(totals))
    drawn = (heads[:, None, 1:] == trees).all(-1)
    assert drawn.any(1).all()
    assert drawn.mean(0) == pytest.approx(np.exp(totals - log_z), abs=5 * np.sqrt(0.25 / count))


def test_no_tree_has_no_score() -> None:
    scores = np.full(16, -np.inf)
    assert best_projective(scores, 3, True, np.empty(charts_size(3)), np.empty(4, np.int64)) == -np.inf
