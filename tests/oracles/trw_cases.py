"""Graphs and tables for tree-reweighted message passing."""

from __future__ import annotations

import torch

from loopwise.graph import FactorGraph, complete, grid, random_mrf


def normal_tables(graph: FactorGraph, seed: int, scale: float = 1.0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        g.name: scale * torch.randn(g.count, *g.shape, generator=generator, dtype=torch.float64) for g in graph.groups
    }


GRAPHS = {
    "grid": grid(3, 3, 2),
    "complete": complete(5, 2),
    "random": random_mrf(8, 14, 3, unary=True, seed=1),
    "triples": random_mrf(7, 6, 2, arity=3, unary=True, seed=2),
    "mixed": FactorGraph(
        [2, 3, 2, 2], {"oblong": [[0, 1], [2, 1]], "square": [[0, 2], [0, 2]], "quad": [[3, 1, 0, 2]]}
    ),
}
