"""Where nodes of a graph are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import loopwise as lw
from loopwise.plot.layouts import grid_shape, place, place_nodes
from oracles.strategies import graphs


@given(graphs())
def test_any_graph_has_a_place_for_everything(graph: lw.FactorGraph) -> None:
    scopes = [scope for group in graph.groups for scope in group.scopes]
    placed = place(graph, scopes)
    assert placed.variables.shape == (graph.variables, 2) and placed.factors.shape == (len(scopes), 2)
    assert np.isfinite(placed.variables).all() and np.isfinite(placed.factors).all()
    gaps = np.linalg.norm(placed.variables[:, None] - placed.variables[None], axis=-1)
    assert (gaps + np.eye(graph.variables) > 0.05).all()  # no variable hides another


def test_neighbours_are_nearer_than_strangers() -> None:
    ring = np.stack([np.arange(20), (np.arange(20) + 1) % 20], axis=1)
    at = place_nodes(20, ring)
    gaps = np.linalg.norm(at[:, None] - at[None], axis=-1)
    joined = gaps[ring[:, 0], ring[:, 1]]
    assert joined.max() < 2 * joined.min()
    assert joined.mean() < 0.5 * gaps[np.triu_indices(20, 1)].mean()


def test_parts_stand_apart() -> None:
    pairs = np.array([[0, 1], [1, 2], [3, 4], [4, 5]])
    at = place_nodes(7, pairs)
    boxes = [(at[part].min(0), at[part].max(0)) for part in ([0, 1, 2], [3, 4, 5], [6])]
    for number, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[number + 1 :]:
            assert (high < other_low).any() or (other_high < low).any()


@pytest.mark.parametrize(
    ("graph", "shape"),
    [
        (lw.grid(3, 5), (3, 5)),
        (lw.grid(5, 3, neighbours=8), (5, 3)),
        (lw.grid(2, 2), (2, 2)),
        (lw.chain(7), (1, 7)),
        (lw.graph.complete(5), None),
        (lw.random_mrf(12, 20, seed=0), None),
        (lw.FactorGraph([2, 2], {"unary": [[0], [1]]}), None),
    ],
)
def test_grids_are_recognised(graph: lw.FactorGraph, shape: tuple[int, int] | None) -> None:
    assert grid_shape(graph) == shape
