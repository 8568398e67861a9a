"""Every tree of a short sentence, by trying all heads: the slow and obvious way."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np


@cache
def every_tree(tokens: int, projective: bool, single_root: bool) -> np.ndarray:
    """Heads of tokens 1 to n, ``[trees, tokens]``."""
    trees = [
        heads
        for heads in product(range(tokens + 1), repeat=tokens)
        if reaches_root(heads) and (not single_root or heads.count(0) == 1) and (not projective or is_projective(heads))
    ]
    return np.array(trees, dtype=np.int64).reshape(-1, tokens)


def reaches_root(heads: tuple[int, ...]) -> bool:
    for token in range(1, len(heads) + 1):
        seen = set()
        while token != 0:
            if token in seen:
                return False
            seen.add(token)
            token = heads[token - 1]
    return True


def is_projective(heads: tuple[int, ...]) -> bool:
    """Whether every token between a head and its modifier descends from that head."""
    for modifier, head in enumerate(heads, 1):
        for between in range(min(head, modifier) + 1, max(head, modifier)):
            ancestor = between
            while ancestor not in (0, head):
                ancestor = heads[ancestor - 1]
            if ancestor != head:
                return False
    return True


def tree_scores(trees: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Total score of each tree; ``scores[head, modifier]``."""
    modifiers = np.arange(1, trees.shape[1] + 1)
    return scores[trees, modifiers].sum(axis=1)


def edge_indicators(trees: np.ndarray) -> np.ndarray:
    """``[trees, n + 1, n + 1]``: which edges are there."""
    count, tokens = trees.shape
    found = np.zeros((count, tokens + 1, tokens + 1))
    found[np.arange(count)[:, None], trees, np.arange(1, tokens + 1)] = 1.0
    return found


def log_sum(values: np.ndarray) -> float:
    top = values.max(initial=-np.inf)
    return float(top + np.log(np.exp(values - top).sum())) if np.isfinite(top) else -np.inf
