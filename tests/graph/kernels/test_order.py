"""Traversals of a factor graph: breadth first, and the longest path of a forest, in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

import loopwise as lw
from loopwise.graph.kernels.order import breadth_first, longest_paths


def arrays(graph: lw.FactorGraph) -> tuple[np.ndarray, ...]:
    """Edges of each variable, and the factor and variable of each edge."""
    scopes = [scope.tolist() for group in graph.groups for scope in group.scopes]
    edge_factor = np.array([factor for factor, scope in enumerate(scopes) for _ in scope], np.int64)
    edge_variable = np.array([variable for scope in scopes for variable in scope], np.int64)
    edges = np.argsort(edge_variable, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(edge_variable, minlength=graph.variables))])
    factor_start = np.concatenate([[0], np.cumsum([len(scope) for scope in scopes])]).astype(np.int64)
    return start, edges, edge_factor, factor_start, edge_variable


def forest(seed: int) -> lw.FactorGraph:
    """Factors of one to three variables, each with one variable of those before, or none (a new tree)."""
    rng, scopes, variables = np.random.default_rng(seed), [], 1
    for _ in range(8):
        new = int(rng.integers(1, 3))
        old = [] if rng.random() < 0.2 else [int(rng.integers(0, variables))]
        scopes.append((*old, *range(variables, variables + new)))
        variables += new
    return lw.FactorGraph.from_scopes([2] * variables, scopes)


def distances(graph: lw.FactorGraph, root: int) -> dict[int, int]:
    """Factors between ``root`` and every variable that is reached from it; a factor of one variable counts as if it had
    another one, below 0, that nothing else has."""
    scopes = [scope.tolist() for group in graph.groups for scope in group.scopes]
    scopes = [scope if len(scope) > 1 else [*scope, -1 - number] for number, scope in enumerate(scopes)]
    found, front = {root: 0}, [root]
    while front:
        variable = front.pop(0)
        for scope in scopes:
            if variable in scope:
                for other in scope:
                    if other not in found:
                        found[other] = found[variable] + 1
                        front.append(other)
    return found


def test_forests() -> None:
    for seed in range(20):
        graph = forest(seed)
        start, edges, edge_factor, factor_start, edge_variable = arrays(graph)
        order, component = breadth_first(start, edges, edge_factor, factor_start, edge_variable)
        assert sorted(order.tolist()) == list(range(graph.variables))
        reached: set[int] = set()
        for root in range(graph.variables):
            if root not in reached:
                away = distances(graph, root)
                mine = [variable for variable in order.tolist() if variable in away]
                assert set(np.flatnonzero(component == component[root])) == {v for v in away if v >= 0}
                assert mine[0] == root and [away[v] for v in mine] == sorted(away[v] for v in mine)
                reached |= {variable for variable in away if variable >= 0}
        paths = longest_paths(order, start, edges, edge_factor, factor_start)
        for root in range(graph.variables):  # that of a tree stands at its topmost variable, or others of the tree
            tree = list(distances(graph, root))
            longest = max(max(distances(graph, each).values()) for each in tree)
            assert paths[[variable for variable in tree if variable >= 0]].max() == longest


@pytest.mark.parametrize("seed", range(20))
def test_components_are_those_of_scipy(seed: int) -> None:
    """And a component has a cycle where it has as many links as variables and factors, or more."""
    rng = np.random.default_rng(seed)
    variables = int(rng.integers(1, 30))
    sizes = rng.integers(1, min(4, variables + 1), int(rng.integers(0, 20)))
    graph = lw.FactorGraph.from_scopes([2] * variables, [rng.choice(variables, k, replace=False) for k in sizes])
    layout = graph.layout
    nodes = variables + layout.message_factors
    links = np.ones(layout.edges), (layout.edge_variable, variables + layout.edge_factor)
    count, label = connected_components(coo_matrix(links, (nodes, nodes)), directed=False)
    component, cyclic = layout.components
    assert component.tolist() == label[:variables].tolist()
    edges = np.bincount(label[layout.edge_variable], minlength=count)
    assert cyclic.tolist() == (edges >= np.bincount(label, minlength=count)).tolist()
    assert layout.is_forest == (not cyclic.any())
