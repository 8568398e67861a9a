"""Elimination orders and junction trees: against the definition and graphs of known treewidth."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwise.graph import FactorGraph, chain, complete, grid, random_mrf
from loopwise.graph.elimination import JunctionTree, junction_tree


def tree_of(graph: FactorGraph, **options: object) -> JunctionTree:
    tree = junction_tree(graph, **options)
    assert tree is not None
    return tree


def check_junction_tree(tree: JunctionTree) -> None:
    """The definition: factors are covered, variables' cliques are connected, children come before parents."""
    graph = tree.graph
    cliques = [set(tree.clique(number).tolist()) for number in range(tree.cliques)]
    assert sorted(tree.order.tolist()) == list(range(graph.variables))
    for group in graph.groups:
        for scope in group.scopes:
            joined = {variable for variable in scope.tolist() if graph.cardinalities[variable] > 1}
            assert any(joined <= clique for clique in cliques)
    for number, clique in enumerate(cliques):
        separator = set(tree.separator(number).tolist())
        assert len(clique) == len(tree.clique(number))
        assert separator < clique
        if tree.parent[number] < 0:
            assert not separator
        else:
            assert tree.parent[number] > number
            assert separator <= cliques[tree.parent[number]]
            assert not separator >= cliques[tree.parent[number]]
    for variable in range(graph.variables):
        holders = [number for number, clique in enumerate(cliques) if variable in clique]
        tops = [n for n in holders if tree.parent[n] < 0 or variable not in cliques[tree.parent[n]]]
        assert tops == [tree.clique_of[variable]]


def simulated_cells(graph: FactorGraph, order: list[int]) -> tuple[float, int]:
    """Cells of the maximal cliques and induced width of an order, by eliminating with Python sets."""
    neighbours: list[set[int]] = [set() for _ in range(graph.variables)]
    for group in graph.groups:
        for scope in group.scopes.tolist():
            for variable in scope:
                neighbours[variable] |= set(scope) - {variable}
    cliques: list[set[int]] = []
    for variable in order:
        clique = neighbours[variable] | {variable}
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for other in neighbours[variable]:
            neighbours[other] |= clique
            neighbours[other] -= {variable, other}
    cells = [float(np.prod(graph.cardinalities[sorted(clique)])) for clique in cliques]
    return sum(cells), max(len(clique) for clique in cliques) - 1


@st.composite
def graphs(draw: st.DrawFn) -> FactorGraph:
    cards = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    variables = st.integers(0, len(cards) - 1)
    scopes = draw(st.lists(st.lists(variables, min_size=1, max_size=4, unique=True), max_size=16))
    return FactorGraph.from_scopes(cards, scopes)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 3))
def test_tree_is_a_junction_tree(graph: FactorGraph, seed: int) -> None:
    check_junction_tree(tree_of(graph, seed=seed, restarts=20))


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 14), st.integers(0, 20), st.integers(0, 1000))
def test_counts_agree_with_elimination_by_sets(variables: int, edges: int, seed: int) -> None:
    graph = random_mrf(variables, min(edges, variables * (variables - 1) // 2), states=3, seed=seed)
    tree = tree_of(graph)
    cells, width = simulated_cells(graph, tree.order.tolist())
    assert tree.total_cells == pytest.approx(cells)
    assert tree.induced_width == width


def test_known_widths() -> None:
    assert tree_of(chain(50, 3)).induced_width == 1
    assert tree_of(complete(7)).induced_width == 6
    cycle = FactorGraph([2] * 9, {"pair": [[i, (i + 1) % 9] for i in range(9)]})
    assert tree_of(cycle).induced_width == 2


def test_grids_cost_no_more_than_sweeping_over_them() -> None:
    graph = grid(6, 20)
    column_by_column = np.arange(120).reshape(6, 20).T.reshape(-1).tolist()
    assert tree_of(graph).total_cells <= simulated_cells(graph, column_by_column)[0]


def test_trees_and_stars_have_one_clique_an_edge() -> None:
    star = FactorGraph([2] * 3001, {"pair": [[0, leaf] for leaf in range(1, 3001)]})
    tree = tree_of(star)
    assert tree.induced_width == 1
    assert tree.total_cells == pytest.approx(4 * 3000)


def test_cardinalities_matter() -> None:
    # A wheel with a hub of 50 values: which rim variable goes first decides how often the 50 are counted.
    rim, spokes = [[0, 1], [1, 3], [3, 4], [0, 4]], [[0, 2], [1, 2], [3, 2], [4, 2]]
    graph = FactorGraph([2, 2, 50, 2, 2], {"rim": rim, "spokes": spokes})
    tree = tree_of(graph)
    best = min(simulated_cells(graph, list(order))[0] for order in permutations(range(5)))
    assert tree.total_cells == pytest.approx(best)


def test_same_seed_same_tree() -> None:
    graph = random_mrf(60, 150, seed=1)
    first, again = tree_of(graph, seed=5), tree_of(graph, seed=5)
    assert np.array_equal(first.order, again.order)


def test_restarts_never_hurt() -> None:
    graph = random_mrf(60, 130, seed=2)
    assert tree_of(graph, restarts=300).total_cells <= tree_of(graph, restarts=0).total_cells


def test_gives_up_beyond_the_limit() -> None:
    assert junction_tree(complete(60), cell_limit=2.0**30) is None
    assert junction_tree(complete(12), cell_limit=2.0**10) is None
    assert junction_tree(complete(12), cell_limit=2.0**12) is not None


def test_nothing_to_eliminate() -> None:
    tree = tree_of(FactorGraph([], {}))
    assert (tree.cliques, tree.total_cells, tree.induced_width) == (0, 0.0, 0)
