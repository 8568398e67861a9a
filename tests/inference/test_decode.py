"""On a tree the assignment read off max-marginals is a true optimum, ties or no ties."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.base import Problem
from loopwise.inference.decode import decode
from oracles.enumeration import Enumeration, enumerate_model

TREE = lw.FactorGraph([2, 3, 2, 2], {"odd": [[1, 0]], "triple": [[1, 2, 3]]})


def max_marginals(found: Enumeration, members: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """The largest probability of a configuration in which the members have each combination of values."""
    best = np.zeros(shape)
    np.maximum.at(best, tuple(found.configurations[:, list(members)].T), found.probabilities)
    return best


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_an_optimum_of_a_tree(seed: int, ties: bool) -> None:
    draws = np.random.default_rng(seed)
    tables = {g.name: draws.normal(size=(g.count, *g.shape)) for g in TREE.groups}
    if ties:
        tables = {name: np.round(table) for name, table in tables.items()}
    found = enumerate_model(TREE, tables)
    cards = TREE.cardinalities.tolist()
    states = np.concatenate([max_marginals(found, (v,), (cards[v],)) for v in range(4)])
    factors = {
        group.name: torch.tensor(np.stack([max_marginals(found, tuple(scope), group.shape) for scope in group.scopes]))
        for group in TREE.groups
    }
    problem = Problem(
        TREE, {n: torch.tensor(t) for n, t in tables.items()}, torch.Size(()), torch.zeros(0, dtype=torch.float64)
    )
    values = decode(problem, torch.tensor(states), factors.__getitem__).numpy()
    row = int((found.configurations == values).all(1).argmax())
    assert found.scores[row] == pytest.approx(found.best_score, abs=1e-12)
