"""Projective trees: scores beyond probabilities, and the same best trees as Edmonds where those are projective."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph.structured.base import log_odds
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree
from oracles.tree_cases import by_enumeration, incoming_of, odds_of, random_scores, trees_of
from oracles.trees import edge_indicators, is_projective, tree_scores


@pytest.mark.parametrize("least", [-600.0, -700.0, -744.0, -750.0])
def test_scores_that_leave_the_range_of_probabilities(least: float) -> None:
    """Weights that would be subnormal or 0 beside the best of their column still count where those are out."""
    spread = {(2, 1): 0, (0, 1): -345, (4, 1): -300, (1, 2): 0, (0, 2): -345, (4, 3): 0, (0, 3): -345, (3, 4): 0}
    spread |= {(2, 4): -345, (0, 4): least, (5, 4): -425, (4, 5): 0, (0, 5): -425}
    factor = ProjectiveTree(5, edges=list(spread))
    scores = np.full((6, 6), -np.inf)
    for edge, value in spread.items():
        scores[edge] = value
    expected = by_enumeration(factor, scores)[2]
    assert log_odds(factor.messages(incoming_of(factor, scores)))[0].numpy() == pytest.approx(expected, abs=1e-10)
    trees = trees_of(factor)
    there = torch.tensor(edge_indicators(trees)[:, factor.edges[:, 0], factor.edges[:, 1]] > 0)
    possible = torch.tensor(np.isfinite(tree_scores(trees, scores)))
    for edge in range(factor.arity):
        odds = odds_of(factor, scores).requires_grad_()
        if abs(expected[edge] + odds[edge].item()) > 480:
            continue  # adjoints of log-odds beyond 500 are 0
        total = (there[possible] * odds).sum(1)
        on, off = (torch.logsumexp(total[there[possible, edge] == side], 0) for side in (True, False))
        (right,) = torch.autograd.grad(on - off, odds)
        sent = factor.messages(torch.stack([torch.zeros_like(odds), odds], -1).flatten()).reshape(-1, 2)
        (found,) = torch.autograd.grad(sent[edge, 1] - sent[edge, 0] + odds[edge], odds)
        assert found.numpy() == pytest.approx(right.numpy(), abs=1e-9)


@pytest.mark.parametrize("single_root", [False, True])
def test_eisner_is_edmonds_where_that_is_projective(single_root: bool) -> None:
    agreed = 0
    for seed in range(60):
        tokens = 4 + seed % 5
        scores = random_scores(tokens, seed=seed) - 0.5 * np.abs(np.subtract.outer(*[np.arange(tokens + 1)] * 2))
        projective, free = ProjectiveTree(tokens, single_root), Tree(tokens, single_root)
        best = free.heads(free.argmax(incoming_of(free, scores)))
        mine = projective.heads(projective.argmax(incoming_of(projective, scores)))
        if is_projective(tuple(best.tolist())):
            assert mine.tolist() == best.tolist()
            agreed += 1
        else:
            totals = [tree_scores(tree[None].numpy(), scores)[0] for tree in (mine, best)]
            assert totals[0] < totals[1]
    assert 10 < agreed < 60
