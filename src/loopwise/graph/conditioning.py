"""Slicing observed variables out of a graph: the structural half.

In: a graph and which variables are observed (in all examples, or only in some). Out: a :class:`Conditioning`:
the smaller graph and the plan by which tables are sliced and beliefs put back. Stage: structure.

A factor that loses variables moves to a group named after its source and the axes that are left (``pair``
with its first variable observed: ``pair|1``). Variables observed in some examples only cannot be sliced away;
they get unary groups of point masses (``evidence|2`` for those of two values), filled in example by example. So do
variables of structured factors, which keep their whole scope: only tables lose their axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loopwise.graph.factor_graph import FactorGraph, Integers


@dataclass(frozen=True, eq=False)
class Piece:
    """The factors of one source group that lose the same axes."""

    source: str
    rows: Integers  # rows of the source group
    observed_axes: tuple[int, ...]
    free_axes: tuple[int, ...]
    target: str

    @property
    def untouched(self) -> bool:
        return not self.observed_axes


@dataclass(frozen=True, eq=False)
class Conditioning:
    """A smaller graph over the free variables, and how it came about."""

    source: FactorGraph
    graph: FactorGraph
    observed: Integers  # variables sliced away, in order
    free: Integers  # variables kept: variable v of the small graph is free[v] of the source
    pieces: tuple[Piece, ...]
    point_masses: dict[str, Integers]  # group of the small graph: the source variables it clamps

    @cached_property
    def edges(self) -> Integers:
        """The edge of the source that each edge of the small graph was, ``[edges]``."""
        layout = self.source.layout
        starts = {member.group.name: (member.edge_start, member.group.arity) for member in layout.message_groups}
        found = [np.zeros(0, dtype=np.int64)]
        for piece in self.pieces:
            if len(piece.free_axes) >= 2:
                start, arity = starts[piece.source]
                found.append((start + piece.rows[:, None] * arity + np.array(piece.free_axes)).reshape(-1))
        if layout.structured:
            found.append(np.arange(layout.structured[0].edge_start, layout.edges))
        return np.concatenate(found)

    @staticmethod
    def of(graph: FactorGraph, always: np.ndarray, sometimes: np.ndarray) -> Conditioning:
        """``always`` and ``sometimes``: boolean ``[variables]``, observed in every example / in some only."""
        kept = np.zeros_like(always)
        for named in graph.structured:
            for scope in named.scopes:
                kept[scope] = True
        sliced, sometimes = always & ~kept, sometimes | (always & kept)
        free = np.flatnonzero(~sliced)
        number = np.full(graph.variables, -1, dtype=np.int64)
        number[free] = np.arange(len(free))
        pieces: list[Piece] = []
        scopes: dict[str, Integers] = {}
        taken = {group.name for group in graph.groups} | {named.name for named in graph.structured}
        for group in graph.groups:
            lost = always[group.scopes]  # [factors, arity]
            patterns = lost @ (1 << np.arange(group.arity, dtype=np.int64))
            for pattern in np.unique(patterns):
                rows = np.flatnonzero(patterns == pattern)
                axes = range(group.arity)
                left = tuple(axis for axis in axes if not pattern >> axis & 1)
                gone = tuple(axis for axis in axes if pattern >> axis & 1)
                target = _new_name(f"{group.name}|{','.join(map(str, left))}", taken) if gone else group.name
                pieces.append(Piece(group.name, rows, gone, left, target))
                scopes[target] = number[group.scopes[rows][:, list(left)]]
        point_masses = _point_mass_groups(graph, sometimes, taken)
        for name, clamped in point_masses.items():
            scopes[name] = number[clamped][:, None]
        structured = {
            named.name: [(factor, number[scope]) for factor, scope in zip(named.factors, named.scopes, strict=True)]
            for named in graph.structured
        }
        small = FactorGraph(graph.cardinalities[free], scopes, structured)
        if graph.part_start is not None:
            small.part_start = np.searchsorted(free, graph.part_start)
        return Conditioning(
            graph,
            small,
            np.flatnonzero(sliced),
            free,
            tuple(pieces),
            point_masses,
        )


def _point_mass_groups(graph: FactorGraph, sometimes: np.ndarray, taken: set[str]) -> dict[str, Integers]:
    clamped = np.flatnonzero(sometimes)
    sizes = graph.cardinalities[clamped]
    return {_new_name(f"evidence|{size}", taken): clamped[sizes == size] for size in np.unique(sizes)}


def _new_name(wish: str, taken: set[str]) -> str:
    """``wish``, primed until no group of the user's and no other piece has that name; then it is taken."""
    while wish in taken:
        wish += "'"
    taken.add(wish)
    return wish
