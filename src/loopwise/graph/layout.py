"""A factor graph compiled to flat integer arrays, the form in which kernels read it.

In: a :class:`FactorGraph`. Out: a :class:`Layout`, computed once a graph and cached on it. Stage: structure.

Factors of arity 0 are constants and factors of arity 1 are folded into their variable, so only factors of
arity 2 and more send messages. An *edge* is one (factor, position) pair of those; edges are numbered group by
group, factor by factor, position by position; those of structured factors come last. A *state* is one (variable,
value) pair, numbered variable by variable; a *slot* is one (edge, value) pair, numbered edge by edge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwise.graph.factor_graph import Group, Integers
from loopwise.graph.offsets import starts_of

if TYPE_CHECKING:
    from loopwise.graph.elimination import JunctionTree
    from loopwise.graph.factor_graph import FactorGraph
    from loopwise.graph.structured.base import StructuredFactor


@dataclass(frozen=True, eq=False)
class MessageGroup:
    """A group of arity 2 or more, and where its edges and slots begin."""

    group: Group
    edge_start: int
    slot_start: int

    @cached_property
    def position_start(self) -> Integers:
        """First slot of each table axis within one factor, ``[arity + 1]``."""
        return starts_of(np.asarray(self.group.shape, dtype=np.int64))

    @cached_property
    def width(self) -> int:
        """Slots of one factor: the sum of its cardinalities."""
        return int(self.position_start[-1])

    @cached_property
    def cell_slots(self) -> Integers:
        """Slot (within the factor) that each table cell reads along each axis, ``[cells, arity]``."""
        values = np.indices(self.group.shape).reshape(self.group.arity, -1).T
        return np.ascontiguousarray(values + self.position_start[:-1], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class StructuredMember:
    """One structured factor, and where its edges and slots begin."""

    name: str
    row: int  # among the factors of that name
    factor: StructuredFactor
    edge_start: int
    slot_start: int


@dataclass(frozen=True, eq=False)
class SequentialOrder:
    """Variables in visiting order, and which messages a visit pulls in: those with news from earlier visits.

    A forest is visited breadth-first from the leaves to the roots and back, so one sweep solves it. A graph
    with cycles is visited as numbered if that order keeps neighbours at least as close together (a grid in
    raster order), since memory is then read in a row; breadth-first otherwise.
    """

    variables: Integers  # [variables]
    pull_forward: np.ndarray  # bool [edges]: does a member of its factor precede its variable
    pull_backward: np.ndarray  # bool [edges]: does one follow, and so precede it going back

    @cached_property
    def messages(self) -> int:
        """Messages sent in one sweep (forward and back)."""
        return int(self.pull_forward.sum()) + int(self.pull_backward.sum())


@dataclass(frozen=True, eq=False)
class Layout:
    """All the integers that message passing needs."""

    graph: FactorGraph
    state_start: Integers  # [variables + 1]
    message_groups: tuple[MessageGroup, ...]
    unary_groups: tuple[Group, ...]
    constant_groups: tuple[Group, ...]
    edge_variable: Integers  # [edges]
    variable_edge_start: Integers  # [variables + 1], into variable_edges
    variable_edges: Integers  # [edges], the edges of each variable
    structured: tuple[StructuredMember, ...] = ()
    storages: dict[Any, Any] = field(default_factory=dict)  # memory arrangements, kept by the engine
    kept: dict[Any, Any] = field(default_factory=dict)  # what else follows from the structure alone, by who made it

    @staticmethod
    def of(graph: FactorGraph) -> Layout:
        """Compiles ``graph``; linear in its size, no Python loop over factors."""
        message_groups: list[MessageGroup] = []
        edges = slots = 0
        for group in graph.groups:
            if group.arity >= 2:
                message_groups.append(MessageGroup(group, edges, slots))
                edges += group.count * group.arity
                slots += group.count * sum(group.shape)
        structured: list[StructuredMember] = []
        for named in graph.structured:
            for row, factor in enumerate(named.factors):
                structured.append(StructuredMember(named.name, row, factor, edges, slots))
                edges += factor.arity
                slots += factor.slots
        scopes = [member.group.scopes.reshape(-1) for member in message_groups]
        edge_variable = _concatenate([*scopes, *(scope for named in graph.structured for scope in named.scopes)])
        degrees = np.bincount(edge_variable, minlength=graph.variables)
        return Layout(
            graph=graph,
            state_start=starts_of(graph.cardinalities),
            message_groups=tuple(message_groups),
            unary_groups=tuple(group for group in graph.groups if group.arity == 1),
            constant_groups=tuple(group for group in graph.groups if group.arity == 0),
            edge_variable=edge_variable,
            variable_edge_start=starts_of(degrees),
            variable_edges=np.argsort(edge_variable, kind="stable").astype(np.int64),
            structured=tuple(structured),
        )

    @cached_property
    def states(self) -> int:
        return int(self.state_start[-1])

    @cached_property
    def edges(self) -> int:
        return int(self.edge_variable.shape[0])

    @cached_property
    def slots(self) -> int:
        return int(self.graph.cardinalities[self.edge_variable].sum())

    @cached_property
    def degrees(self) -> Integers:
        """Number of message-sending factors of each variable (unary factors are folded in, not counted)."""
        return np.diff(self.variable_edge_start)

    @cached_property
    def edge_factor(self) -> Integers:
        """The factor of each edge, ``[edges]``: factors of arity 2 and more numbered in layout order, then structured
        ones."""
        pieces, first = [], 0
        for member in self.message_groups:
            pieces.append(first + np.repeat(np.arange(member.group.count), member.group.arity))
            first += member.group.count
        for number, structured in enumerate(self.structured):
            pieces.append(np.full(structured.factor.arity, first + number))
        return _concatenate(pieces)

    @cached_property
    def message_factors(self) -> int:
        return sum(member.group.count for member in self.message_groups) + len(self.structured)

    @cached_property
    def named_factors(self) -> tuple[tuple[str, int], ...]:
        """Names and numbers of the factors that send messages, in the order in which they are numbered."""
        groups = [(member.group.name, member.group.count) for member in self.message_groups]
        return (*groups, *((named.name, named.count) for named in self.graph.structured))

    @cached_property
    def slot_state(self) -> Integers:
        """The state (variable, value) that each slot (edge, value) speaks of, ``[slots]``."""
        sizes = self.graph.cardinalities[self.edge_variable]
        first_slot = starts_of(sizes)
        within = np.arange(self.slots) - np.repeat(first_slot[:-1], sizes)
        return np.repeat(self.state_start[self.edge_variable], sizes) + within

    @cached_property
    def state_variable(self) -> Integers:
        """The variable of each state, ``[states]``."""
        return np.repeat(np.arange(self.graph.variables), self.graph.cardinalities)

    @cached_property
    def unary_states(self) -> tuple[tuple[Group, Integers | None], ...]:
        """The groups of arity 1, each with the state of every number in their tables, ``[factors * values]``; None if
        these are all states in order, as where every variable has one such factor."""
        found: list[tuple[Group, Integers | None]] = []
        for group in self.unary_groups:
            states = (self.state_start[group.scopes[:, 0]][:, None] + np.arange(group.shape[0])).reshape(-1)
            found.append((group, None if np.array_equal(states, np.arange(self.states)) else states))
        return tuple(found)

    @cached_property
    def sequential(self) -> SequentialOrder:
        """The tree-solving visiting order."""
        order = self._breadth_first[0][::-1].copy()
        edge_rank, lowest, highest = self._ranks(order)
        if not self.is_forest:
            order = self._closer(order, highest - lowest)
            edge_rank, lowest, highest = self._ranks(order)
        return SequentialOrder(order, edge_rank > lowest[self.edge_factor], edge_rank < highest[self.edge_factor])

    @cached_property
    def depth(self) -> int:
        """Factors on the longest path of a forest: after so many flooding sweeps no message of BP can change any more,
        whatever they began as."""
        return int(self.paths.max(initial=0))

    @cached_property
    def paths(self) -> Integers:
        """Factors on the longest path of a forest whose topmost variable is each one, ``[variables]``."""
        from loopwise.graph.kernels.order import longest_paths

        starts = self.factor_edges
        order, _ = self._breadth_first
        found: Integers = longest_paths(order, self.variable_edge_start, self.variable_edges, self.edge_factor, starts)
        return found

    def _closer(self, order: Integers, spans: Integers) -> Integers:
        """``order``, in which the members of factors stand ``spans`` apart; but a component with a cycle is visited as
        numbered where that keeps neighbours at least as close. Each component for itself: what is sent in one part of a
        union does not depend on the other parts."""
        as_numbered = np.arange(len(order))
        _, lowest, highest = self._ranks(as_numbered)
        component, cyclic = self.components
        of_factor = component[self.edge_variable[self.factor_edges[:-1]]]
        further = np.bincount(of_factor, highest - lowest - spans, minlength=len(cyclic))
        numbered = cyclic & (further <= 0)
        if numbered[of_factor].all():
            return as_numbered
        if not numbered.any():
            return order
        rank = np.empty_like(order)
        rank[order] = as_numbered
        return np.lexsort((np.where(numbered[component], as_numbered, rank), component))

    @cached_property
    def components(self) -> tuple[Integers, np.ndarray]:
        """The component of each variable, and which components have a cycle."""
        _, component = self._breadth_first
        count = component.max(initial=-1) + 1
        of_edge = component[self.edge_variable]
        nodes = np.bincount(component, minlength=count) + np.bincount(of_edge[self.factor_edges[:-1]], minlength=count)
        return component, np.bincount(of_edge, minlength=count) >= nodes

    @cached_property
    def _breadth_first(self) -> tuple[Integers, Integers]:
        """Variables in breadth-first order, and the component of each."""
        from loopwise.graph.kernels.order import breadth_first

        found: tuple[Integers, Integers] = breadth_first(
            self.variable_edge_start, self.variable_edges, self.edge_factor, self.factor_edges, self.edge_variable
        )
        return found

    def _ranks(self, order: Integers) -> tuple[Integers, Integers, Integers]:
        """When each edge's variable is visited, and each factor's first and last member."""
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        edge_rank = rank[self.edge_variable]
        lowest = np.full(self.message_factors, len(order), dtype=np.int64)
        highest = np.full(self.message_factors, -1, dtype=np.int64)
        np.minimum.at(lowest, self.edge_factor, edge_rank)
        np.maximum.at(highest, self.edge_factor, edge_rank)
        return edge_rank, lowest, highest

    @cached_property
    def factor_edges(self) -> Integers:
        """First edge of each factor that sends messages, whose edges are consecutive, ``[factors + 1]``."""
        return starts_of(np.bincount(self.edge_factor, minlength=self.message_factors))

    @cached_property
    def junction_tree(self) -> JunctionTree | None:
        """The tree that exact inference runs on; None where it would be far too large."""
        from loopwise.graph.elimination import junction_tree

        return junction_tree(self.graph)

    @cached_property
    def is_forest(self) -> bool:
        """Whether the factor graph has no cycle (then BP is exact)."""
        nodes = self.graph.variables + self.message_factors
        if self.edges >= nodes > 0:
            return False  # too many links for a forest: no need to look for a cycle
        return not bool(self.components[1].any())


def _concatenate(pieces: list[Integers]) -> Integers:
    return np.concatenate(pieces).astype(np.int64) if pieces else np.zeros(0, dtype=np.int64)
