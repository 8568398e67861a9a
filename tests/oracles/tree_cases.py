"""Scores of edges, and what follows from them by going through all trees."""

from __future__ import annotations

import numpy as np
import torch

from loopwise.graph.structured.edges import EdgeFactor, all_edges
from loopwise.graph.structured.projective_tree import ProjectiveTree
from oracles.trees import edge_indicators, every_tree, log_sum, tree_scores


def trees_of(factor: EdgeFactor) -> np.ndarray:
    return every_tree(factor.tokens, isinstance(factor, ProjectiveTree), factor.single_root)


def random_scores(tokens: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    scores = np.full((tokens + 1, tokens + 1), -np.inf)
    edges = all_edges(tokens)
    scores[edges[:, 0], edges[:, 1]] = scale * np.random.default_rng(seed).standard_normal(len(edges))
    return scores


def odds_of(factor: EdgeFactor, scores: np.ndarray) -> torch.Tensor:
    return torch.tensor(scores[factor.edges[:, 0], factor.edges[:, 1]])


def incoming_of(factor: EdgeFactor, scores: np.ndarray) -> torch.Tensor:
    """Messages (0, score): their log-partition is that of the scores."""
    odds = odds_of(factor, scores)
    return torch.stack([torch.zeros_like(odds), odds], -1).flatten()


def by_enumeration(factor: EdgeFactor, scores: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z, marginals and log-odds messages of each edge."""
    trees = trees_of(factor)
    total = tree_scores(trees, scores)
    there = edge_indicators(trees)[:, factor.edges[:, 0], factor.edges[:, 1]] > 0  # [trees, edges]
    own = odds_of(factor, scores).numpy()
    log_z = log_sum(total)
    on = np.array([log_sum(total[column]) for column in there.T])
    messages = []
    for edge, column in enumerate(there.T):
        with_others = np.array(scores)
        with_others[tuple(factor.edges[edge])] = 0.0  # its own score left out
        others = tree_scores(trees, with_others)
        messages.append(log_sum(others[column]) - log_sum(others[~column]))
    assert own.shape == on.shape
    return log_z, np.exp(on - log_z), np.array(messages)
