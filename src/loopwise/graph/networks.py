"""Graphs of networkx as factor graphs, and back.

In: a networkx graph, or a :class:`FactorGraph`. Out: the other. Stage: structure. networkx is imported when asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwise.formats.vocabulary import Vocabulary
from loopwise.graph.factor_graph import FactorGraph


def from_networkx(network: Any, cardinality: int = 2) -> FactorGraph:
    """A variable for each node, with a factor ``unary``, and a factor ``pair`` for each edge.

    A node with the attribute ``labels`` (what its values are called) or ``cardinality`` (how many there are) has as
    many values, another ``cardinality``. Variables are called as their nodes are (``str(node)``), in the order of
    ``network.nodes``. Directions of edges are lost. Where variables differ in their numbers of values, factors are
    grouped by shape, as :meth:`FactorGraph.from_scopes` does.

    Raises
    ------
    ValueError
        If two nodes have one name, an edge joins a node with itself, or an attribute is no number or list.

    >>> import networkx
    >>> graph = from_networkx(networkx.cycle_graph(4))
    >>> graph, graph.vocabulary.names
    (FactorGraph(4 variables, 8 factors: unary 4 of 2, pair 4 of 2x2), ('0', '1', '2', '3'))
    """
    nodes = list(network.nodes(data=True))
    number = {node: place for place, (node, _) in enumerate(nodes)}
    labels = tuple(_labels(node, data, cardinality) for node, data in nodes)
    vocabulary = Vocabulary(tuple(str(node) for node, _ in nodes), labels)
    pairs = dict.fromkeys(tuple(sorted((number[one], number[other]))) for one, other in network.edges())
    for one, other in pairs:
        if one == other:
            raise ValueError(f"an edge joins node {nodes[one][0]!r} with itself; remove it")
    sizes = [len(known) for known in labels]
    if len(set(sizes)) <= 1:
        scopes = {
            "unary": np.arange(len(nodes), dtype=np.int64)[:, None],
            "pair": np.array(list(pairs), dtype=np.int64).reshape(-1, 2),
        }
        return FactorGraph(sizes, {name: rows for name, rows in scopes.items() if len(rows)}, vocabulary=vocabulary)
    return FactorGraph.from_scopes(sizes, [*((place,) for place in range(len(nodes))), *pairs]).named(vocabulary)


def to_networkx(graph: FactorGraph, *, factors: bool = False) -> Any:
    """A networkx graph whose nodes are the variables, joined where they share a factor, structured ones included.

    Nodes are called as the graph's vocabulary says, else by number, and have the attributes ``cardinality`` and
    ``labels``. ``factors``: the bipartite graph instead, with a node ``(group, row)`` for each factor, ``bipartite`` 0
    on variables and 1 on factors.

    >>> import loopwise as lw
    >>> sorted(to_networkx(lw.chain(3)).edges())
    [(0, 1), (1, 2)]
    """
    try:
        import networkx  # type: ignore[import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise ValueError("networkx is not installed: pip install networkx") from None
    known = graph.vocabulary
    nodes: list[Any] = list(range(graph.variables)) if known is None else list(known.names)
    found = networkx.Graph()
    for place, node in enumerate(nodes):
        extra: dict[str, Any] = {} if known is None else {"labels": known.labels[place]}
        extra |= {"bipartite": 0} if factors else {}
        found.add_node(node, cardinality=int(graph.cardinalities[place]), **extra)
    for name, row, scope in _scopes(graph):
        if factors:
            found.add_node((name, row), bipartite=1)
            found.add_edges_from(((name, row), nodes[place]) for place in scope)
        else:
            found.add_edges_from((nodes[one], nodes[other]) for k, one in enumerate(scope) for other in scope[k + 1 :])
    return found


def _scopes(graph: FactorGraph) -> list[tuple[str, int, list[int]]]:
    tables = [(group.name, row, scope) for group in graph.groups for row, scope in enumerate(group.scopes.tolist())]
    return tables + [
        (group.name, row, scope.tolist()) for group in graph.structured for row, scope in enumerate(group.scopes)
    ]


def _labels(node: Any, data: dict[str, Any], cardinality: int) -> tuple[str, ...]:
    given = data.get("labels")
    if given is not None:
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise ValueError(f"the attribute labels of node {node!r} must list its values, not {given!r}")
        return tuple(map(str, given))
    size = data.get("cardinality", cardinality)
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"the cardinality of node {node!r} must be a whole number of at least 1, not {size!r}")
    return tuple(map(str, range(int(size))))
