"""A problem with folded unary potentials and its unfolded form are the same distribution."""

from __future__ import annotations

import numpy as np
import torch

import loopwise as lw
from loopwise.inference.base import Problem
from loopwise.inference.unfolding import unfolded
from oracles.enumeration import enumerate_model

GRAPH = lw.FactorGraph([2, 3, 2], {"unary|2": [[0]], "odd": [[1, 0], [1, 2]]})


def test_unfolded_tables_say_the_same() -> None:
    draws = torch.Generator().manual_seed(3)
    tables = {g.name: torch.randn(g.count, *g.shape, generator=draws, dtype=torch.float64) for g in GRAPH.groups}
    folded = torch.randn(7, generator=draws, dtype=torch.float64)
    problem = Problem(GRAPH, tables, torch.Size(()), torch.zeros(0, dtype=torch.float64), folded=folded)
    found = unfolded(problem)
    assert found.folded is None
    assert all(group.name != "unary|2" for group in found.graph.groups)  # taken: the new ones have other names
    assert unfolded(problem).graph is found.graph
    ours = enumerate_model(found.graph, found.tables)
    pairs = lw.FactorGraph([2, 3, 2], {"odd": [[1, 0], [1, 2]]})
    alone = enumerate_model(pairs, {"odd": tables["odd"]})
    parts = np.split(folded.numpy(), [2, 5])
    scores = alone.scores + sum(part[alone.configurations[:, k]] for k, part in enumerate(parts))
    np.testing.assert_allclose(ours.scores, scores, atol=1e-12)


def test_without_folded_potentials_nothing_changes() -> None:
    problem = Problem(GRAPH, {}, torch.Size(()), torch.zeros(0))
    assert unfolded(problem) is problem
