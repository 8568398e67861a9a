"""Graphs of networkx, both ways."""

from __future__ import annotations

import pytest

import loopwise as lw

networkx = pytest.importorskip("networkx")


def test_nodes_are_variables_and_edges_are_pairs() -> None:
    network = networkx.Graph()
    network.add_node("flu", labels=("no", "yes"))
    network.add_node("season", labels=["winter", "spring", "summer"])
    network.add_edge("season", "flu")
    network.add_edge("flu", "fever")
    graph = lw.FactorGraph.from_networkx(network)
    assert graph.cardinalities.tolist() == [2, 3, 2] and graph.factors == 5
    assert graph.vocabulary is not None and graph.vocabulary.names == ("flu", "season", "fever")
    beliefs = lw.BP()(graph, lw.TablePotentials.random(graph, seed=0), {"season": "summer"})
    assert beliefs["season"]["summer"] == 1.0 and 0 < beliefs["flu"]["yes"] < 1
    back = graph.to_networkx()
    assert set(map(frozenset, back.edges())) == {frozenset({"flu", "season"}), frozenset({"flu", "fever"})}
    assert back.nodes["season"] == {"cardinality": 3, "labels": ("winter", "spring", "summer")}
    assert lw.FactorGraph.from_networkx(back) == graph


def test_directions_are_lost_and_numbers_are_names() -> None:
    graph = lw.FactorGraph.from_networkx(networkx.DiGraph([(0, 1), (1, 0), (1, 2)]), cardinality=4)
    assert repr(graph) == "FactorGraph(3 variables, 5 factors: unary 3 of 4, pair 2 of 4x4)"
    assert lw.FactorGraph.from_networkx(networkx.empty_graph(2)).factors == 2


def test_factors_as_nodes() -> None:
    graph = lw.FactorGraph([2, 2, 2], {"triple": [[0, 1, 2]]}, {"one": (lw.ExactlyOne(2), [0, 2])})
    found = graph.to_networkx(factors=True)
    assert sorted(found.neighbors(("triple", 0))) == [0, 1, 2] and sorted(found.neighbors(("one", 0))) == [0, 2]
    assert networkx.is_bipartite(found)
    assert sorted(graph.to_networkx().edges()) == [(0, 1), (0, 2), (1, 2)]


def test_what_is_no_graph_of_variables() -> None:
    with pytest.raises(ValueError, match="joins node 'a' with itself"):
        lw.FactorGraph.from_networkx(networkx.Graph([("a", "a")]))
    with pytest.raises(ValueError, match="two variables are called '1'"):
        lw.FactorGraph.from_networkx(networkx.Graph([(1, "1")]))
    network = networkx.empty_graph(1)
    for name, value in {"cardinality": 0, "labels": "yes"}.items():
        network.nodes[0].clear()
        network.nodes[0][name] = value
        with pytest.raises(ValueError, match=f"{name} of node 0 must"):
            lw.FactorGraph.from_networkx(network)
