"""The parts of a union, each for itself: what belongs to which, and the graph of some of them.

In: a graph that a union made, perhaps after evidence took variables out of it. Out: :class:`Parts` (integers), and
:class:`PartSelection` (the smaller graph of some parts, and where its variables, states, edges and slots were). Stage:
structure. Message passing asks, so that each example of a union stops by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import FactorGraph, Group, Integers, StructuredGroup
from loopwise.graph.offsets import starts_of


@dataclass(frozen=True, eq=False)
class PartSelection:
    """Some parts of a union as a graph of their own; integers are places in the union. Constants are left out."""

    graph: FactorGraph
    variables: Integers
    states: Integers
    edges: Integers
    slots: Integers
    factors: Integers  # among those that send messages
    rows: dict[str, Integers]  # of each group
    structured_rows: dict[str, Integers]


class Parts:
    """Which part of a union each of its variables, states, factors, edges and slots is of.

    >>> import loopwise as lw
    >>> parts = Parts.of(lw.graph.union([lw.chain(3), lw.chain(2)]).graph)
    >>> parts.count, parts.edge_part.tolist(), parts.select(np.array([1])).edges.tolist()
    (2, [0, 0, 0, 0, 1, 1], [4, 5])
    """

    def __init__(self, graph: FactorGraph) -> None:
        if graph.part_start is None:
            raise ValueError("the graph is no union of parts; make one with lw.graph.union([...])")
        self.graph, self.count = graph, len(graph.part_start) - 1
        self.variable_part = np.repeat(np.arange(self.count), np.diff(graph.part_start))

    @staticmethod
    def of(graph: FactorGraph) -> Parts:
        """Those of ``graph``, worked out once."""
        kept = graph.layout.kept
        if Parts not in kept:
            kept[Parts] = Parts(graph)
        found: Parts = kept[Parts]
        return found

    @cached_property
    def state_part(self) -> Integers:
        return self.variable_part[self.graph.layout.state_variable]

    @cached_property
    def edge_part(self) -> Integers:
        return self.variable_part[self.graph.layout.edge_variable]

    @cached_property
    def slot_part(self) -> Integers:
        return np.repeat(self.edge_part, self.graph.cardinalities[self.graph.layout.edge_variable])

    @cached_property
    def edges(self) -> Integers:
        """How many edges each part has, ``[parts]``."""
        return np.bincount(self.edge_part, minlength=self.count)

    @cached_property
    def slots(self) -> Integers:
        """How many slots each part has, ``[parts]``."""
        return np.bincount(self.slot_part, minlength=self.count)

    @cached_property
    def factor_part(self) -> Integers:
        """Of each factor that sends messages, ``[factors]``."""
        return self.edge_part[self.graph.layout.factor_edges[:-1]]

    def of_factors(self, name: str) -> Integers:
        """The part of each factor of one or more variables of group ``name``, structured or not, ``[factors]``."""
        named = self.graph.structured_group(name)
        if named is not None:
            return self.variable_part[[int(scope[0]) for scope in named.scopes]]
        return self.variable_part[self.graph.group(name).scopes[:, 0]]

    @cached_property
    def forest(self) -> NDArray[np.bool_]:
        """Which parts have no cycle, ``[parts]``."""
        component, cyclic = self.graph.layout.components
        found = np.ones(self.count, dtype=np.bool_)
        found[self.variable_part[cyclic[component]]] = False
        return found

    @cached_property
    def depth(self) -> Integers:
        """Factors on the longest path of each part that is a forest, ``[parts]``: sweeps that flooding needs there."""
        found = np.zeros(self.count, dtype=np.int64)
        np.maximum.at(found, self.variable_part, self.graph.layout.paths)
        return found

    @cached_property
    def messages(self) -> Integers:
        """Messages of a sweep of the sequential schedule in each part, ``[parts]``."""
        order = self.graph.layout.sequential
        sent = order.pull_forward.astype(np.float64) + order.pull_backward
        return np.bincount(self.edge_part, weights=sent, minlength=self.count).astype(np.int64)

    @cached_property
    def _everything(self) -> PartSelection:
        graph, layout = self.graph, self.graph.layout
        rows = {group.name: np.arange(group.count) for group in graph.groups if group.arity}
        structured = {named.name: np.arange(named.count) for named in graph.structured}
        return PartSelection(
            graph,
            np.arange(graph.variables),
            np.arange(layout.states),
            np.arange(layout.edges),
            np.arange(layout.slots),
            np.arange(layout.message_factors),
            rows,
            structured,
        )

    def select(self, chosen: Integers) -> PartSelection:
        """The parts ``chosen`` (numbers) as a union of their own, in the same order; all of them: the union itself."""
        if len(chosen) == self.count:
            return self._everything
        mine = np.zeros(self.count, dtype=np.bool_)
        mine[chosen] = True
        variables = np.flatnonzero(mine[self.variable_part])
        number = np.full(self.graph.variables, -1, dtype=np.int64)
        number[variables] = np.arange(len(variables))
        groups, rows = [], {}
        for group in self.graph.groups:
            if group.arity == 0:
                continue
            kept = rows[group.name] = np.flatnonzero(mine[self.of_factors(group.name)])
            groups.append(Group(group.name, number[group.scopes[kept]], group.shape))
        structured, structured_rows = [], {}
        for named in self.graph.structured:
            kept = structured_rows[named.name] = np.flatnonzero(mine[self.of_factors(named.name)])
            if len(kept):
                factors = tuple(named.factors[row] for row in kept)
                scopes = tuple(number[named.scopes[row]] for row in kept)
                structured.append(StructuredGroup(named.name, factors, scopes))
        graph = FactorGraph.of_groups(self.graph.cardinalities[variables], tuple(groups), tuple(structured))
        assert self.graph.part_start is not None
        graph.part_start = starts_of(np.diff(self.graph.part_start)[chosen])
        return PartSelection(
            graph,
            variables,
            np.flatnonzero(mine[self.state_part]),
            np.flatnonzero(mine[self.edge_part]),
            np.flatnonzero(mine[self.slot_part]),
            np.flatnonzero(mine[self.factor_part]),
            rows,
            structured_rows,
        )
