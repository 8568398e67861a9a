"""Shortest cycles against networkx's, and the strength of ties against cases worked by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.cycles import Ties, sign, strengths


def drawn(seed: int) -> lw.FactorGraph:
    """Pairs and triples at random over eight binary variables."""
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(8, 2, replace=False).tolist() for _ in range(6)]
    triples = [rng.choice(8, 3, replace=False).tolist() for _ in range(2)]
    return lw.FactorGraph([2] * 8, {"pair": pairs, "triple": triples})


def as_network(graph: lw.FactorGraph, among: np.ndarray) -> nx.Graph:
    """Variables and factors as nodes; factors are told apart by group and row."""
    network = nx.Graph()
    for group in graph.groups:
        for row, scope in enumerate(group.scopes):
            network.add_edges_from((int(variable), (group.name, row)) for variable in scope if among[variable])
    return network


@pytest.mark.parametrize("seed", range(12))
def test_cycles_are_the_shortest_through_a_variable(seed: int) -> None:
    graph = drawn(seed)
    among = np.random.default_rng(seed + 100).random(8) < 0.9
    ties = Ties(graph.layout)
    part, network = ties.within(among), as_network(graph, among)
    for root in np.flatnonzero(among).tolist():
        if root not in network:
            assert part.cycles(root) == []
            continue
        through = [cycle for cycle in nx.simple_cycles(network) if root in cycle]
        found = part.cycles(root)
        if not through:
            assert found == []
            continue
        shortest = min(map(len, through)) // 2
        for variables, factors in found:
            assert variables[0] == root and len(variables) == len(factors) == shortest
            following = [*variables[1:], root]
            for variable, factor, after in zip(variables, factors, following, strict=True):
                assert {variable, after} <= set(network[ties.named(factor)])


def test_a_tree_has_no_cycle() -> None:
    graph = lw.chain(5)
    assert Ties(graph.layout).within(np.ones(5, dtype=bool)).cycles(2) == []


def test_strength_is_what_single_variables_do_not_say() -> None:
    draws = torch.Generator().manual_seed(0)
    single = torch.randn(4, 3, 1, generator=draws) + torch.randn(4, 1, 2, generator=draws)
    assert strengths(single).max() < 1e-6
    coupling = torch.tensor([[1.5, -1.5], [-1.5, 1.5]])
    assert strengths(coupling[None] + torch.randn(1, 2, 1, generator=draws)).tolist() == pytest.approx([1.5])
    assert (sign(coupling), sign(-coupling), sign(torch.zeros(2, 2))) == (1, -1, 0)
