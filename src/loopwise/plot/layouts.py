"""Where the nodes of a factor graph are drawn.

In: a graph. Out: positions of variables and factors. Grids and chains are recognised and drawn as such; other graphs
are placed by springs and repulsion, started from the spectrum of the graph, one connected part beside another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.builders import grid
from loopwise.graph.factor_graph import FactorGraph

Positions = NDArray[np.float64]  # [nodes, 2]
Edges = NDArray[np.int64]  # [edges, 2]

ROUNDS = 300  # of springs; positions move by less than a line's width after these for a few hundred nodes
APART = 0.5  # from a variable to its factors: half of what neighbours on a grid have
ASIDE = 0.32  # of the distance of neighbours: how far a factor of one variable is from it
CLOSEST, STRETCH = 0.4, 2.0  # between any two nodes, if edges need not become so many times longer for it
TWINS = 0.16  # the same between factors of one scope


@dataclass(frozen=True, eq=False)
class Placed:
    """Positions in a plane where neighbours are about 1 apart, in the order of the scopes given."""

    variables: Positions
    factors: Positions


def place(graph: FactorGraph, scopes: Sequence[NDArray[np.int64]]) -> Placed:
    """Positions of all variables of ``graph`` and of factors with these ``scopes``.

    O(rounds * nodes^2), a second for some hundred nodes; O(nodes) for grids and chains.
    """
    shape = grid_shape(graph)
    if shape is not None:
        variable = np.arange(graph.variables)
        variables = np.stack([variable % shape[1], -(variable // shape[1])], axis=1).astype(np.float64)
        return Placed(variables, _factors_at(variables, scopes))
    joining = [number for number, scope in enumerate(scopes) if len(scope) >= 2]
    edges = [(variable, graph.variables + k) for k, number in enumerate(joining) for variable in scopes[number]]
    count = graph.variables + len(joining)
    positions = place_nodes(count, np.array(edges, dtype=np.int64).reshape(-1, 2))
    factors = _factors_at(positions[: graph.variables], scopes)
    factors[joining] = positions[graph.variables :]
    return Placed(positions[: graph.variables], factors)


def grid_shape(graph: FactorGraph) -> tuple[int, int] | None:
    """Rows and columns if the pairs of the graph are those of :func:`~loopwise.grid` (a chain is one row), else None.

    >>> import loopwise as lw
    >>> grid_shape(lw.grid(3, 4)), grid_shape(lw.chain(5)), grid_shape(lw.graph.complete(5))
    ((3, 4), (1, 5), None)
    """
    scopes = [group.scopes for group in graph.groups if group.arity == 2 and group.count]
    if not scopes or graph.structured or any(group.arity > 2 and group.count for group in graph.groups):
        return None
    pairs = {tuple(sorted(pair)) for pair in np.concatenate(scopes).tolist()}
    widths = {high - low for low, high in pairs if high - low > 1 and graph.variables % (high - low) == 0}
    for columns in [graph.variables, *sorted(widths)]:
        rows = graph.variables // columns
        for neighbours in (4, 8):
            if pairs == set(map(tuple, grid(rows, columns, neighbours=neighbours).group("pair").scopes.tolist())):
                return rows, columns
    return None


def place_nodes(count: int, edges: Edges) -> Positions:
    """Positions of the nodes of any graph; its connected parts stand beside each other."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if count == 0:
        return np.zeros((0, 2))
    weights = np.ones(len(edges))
    adjacency = coo_array((weights, (edges[:, 0], edges[:, 1])), shape=(count, count))
    parts, part_of = connected_components(adjacency, directed=False)
    positions = np.zeros((count, 2))
    number = np.zeros(count, dtype=np.int64)
    placed = []
    for part in range(parts):
        mine = np.flatnonzero(part_of == part)
        number[mine] = np.arange(len(mine))
        inside = edges[part_of[edges[:, 0]] == part] if len(edges) else edges
        placed.append((mine, _place_part(len(mine), number[inside])))
    _pack(placed, positions)
    return positions


def _place_part(count: int, edges: Edges) -> Positions:
    """One connected part: springs draw neighbours together, all nodes repel (Fruchterman and Reingold 1991)."""
    if count == 1:
        return np.zeros((1, 2))
    at = _spectral(count, edges) * np.sqrt(count)
    left, right = edges[:, 0], edges[:, 1]
    for round_number in range(ROUNDS):
        gap = at[:, None, :] - at[None, :, :]
        square = np.maximum((gap**2).sum(-1), 1e-4)
        force = (gap / square[..., None]).sum(1)
        span = at[left] - at[right]
        pull = span * np.sqrt((span**2).sum(-1, keepdims=True))
        np.add.at(force, left, -pull)
        np.add.at(force, right, pull)
        length = np.maximum(np.sqrt((force**2).sum(-1, keepdims=True)), 1e-12)
        step = 0.3 * np.sqrt(count) * (1 - round_number / ROUNDS) ** 2 + 1e-3
        at = at + force / length * np.minimum(length, step)
    return _turned(at * _enlargement(at, edges))


def _enlargement(at: Positions, edges: Edges) -> float:
    """Brings the usual edge to its length, or to so much more that nodes do not hide each other, within limits."""
    usual = np.median(np.sqrt(((at[edges[:, 0]] - at[edges[:, 1]]) ** 2).sum(-1)))
    square = ((at[:, None, :] - at[None, :, :]) ** 2).sum(-1)
    closest = np.sqrt((square + np.diag(np.full(len(at), np.inf))).min())
    wanted = APART / max(float(usual), 1e-12)
    return float(np.clip(CLOSEST / max(float(closest), 1e-12), wanted, STRETCH * wanted))


def _spectral(count: int, edges: Edges) -> Positions:
    """The two smoothest ways to number the nodes (eigenvectors of the Laplacian), with a little noise against ties."""
    laplacian = np.zeros((count, count))
    np.add.at(laplacian, (edges[:, 0], edges[:, 1]), -1.0)
    laplacian = np.minimum(laplacian, laplacian.T)
    np.fill_diagonal(laplacian, -laplacian.sum(1))
    _, vectors = np.linalg.eigh(laplacian)
    found = np.zeros((count, 2))
    smooth = vectors[:, 1:3]
    found[:, : smooth.shape[1]] = smooth / np.maximum(smooth.std(0), 1e-12) / 2
    noise: Positions = np.random.default_rng(0).normal(0, 0.02, (count, 2))
    return found + noise


def _turned(at: Positions) -> Positions:
    """The same drawing, wide rather than high, and the same way round on every machine."""
    centred = at - at.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned: Positions = centred @ axes.T
    return np.asarray(turned * np.where((turned**3).sum(0) < 0, -1.0, 1.0))


def _pack(placed: Sequence[tuple[NDArray[np.int64], Positions]], positions: Positions) -> None:
    """Parts in rows, the largest first, about twice as wide as high together."""
    sizes = [np.ptp(at, axis=0) + 1.0 for _, at in placed]
    width = max(np.sqrt(2 * sum(size[0] * size[1] for size in sizes)), max(size[0] for size in sizes))
    x = y = height = 0.0
    for number in sorted(range(len(placed)), key=lambda part: -len(placed[part][0])):
        (nodes, at), size = placed[number], sizes[number]
        if x and x + size[0] > width:
            x, y, height = 0.0, y - height, 0.0
        low = at.min(0)
        positions[nodes, 0] = at[:, 0] - low[0] + x
        positions[nodes, 1] = at[:, 1] - at.max(0)[1] + y
        x, height = x + size[0], max(height, float(size[1]))


def _factors_at(variables: Positions, scopes: Sequence[NDArray[np.int64]]) -> Positions:
    """Factors in the middle of their variables; those of one variable beside it, twins beside each other."""
    found = np.zeros((len(scopes), 2))
    seen: dict[tuple[int, ...], int] = {}
    corner = variables.min(0, initial=0.0) - 1.0
    for number, scope in enumerate(scopes):
        key = tuple(sorted(scope.tolist()))
        twin = seen[key] = seen.get(key, -1) + 1
        if len(key) == 0:
            found[number] = corner + np.array([1.0 + twin * ASIDE, 0.4])
        elif len(key) == 1:
            angle = np.pi / 4 + twin * np.pi / 3
            found[number] = variables[key[0]] + ASIDE * np.array([np.cos(angle), np.sin(angle)])
        else:
            ends = variables[list(key)]
            along = ends[1] - ends[0]
            across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-12)
            side = -1 if twin % 2 else 1
            found[number] = ends.mean(0) + across * TWINS * side * ((twin + 1) // 2)
    return found
