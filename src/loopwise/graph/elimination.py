"""Elimination orders and junction trees: what exact inference would cost, and the tree it runs on.

In: a :class:`FactorGraph`. Out: a :class:`JunctionTree` (order, cliques, parents, separators, cells). Stage:
structure. Finding a best order is NP-hard; greedy orders with random restarts come close (Kjaerulff 1990;
Kask, Gelfand, Otten and Dechter 2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.offsets import starts_of

if TYPE_CHECKING:
    from loopwise.graph.kernels.ports import Ports

_NONE = np.zeros(0, dtype=np.int64)
LARGEST_TOTAL = 2.0**36  # cells: beyond this, hours of work
RESTARTS = 3000  # at most so many randomised tries, and none beyond the budget of steps:
STEPS_A_CELL = 0.15  # a step takes some 15 ns, a cell some 10 in both passes: search costs a quarter of the inference
MOST_STEPS = 6e8
HOPELESS = 16  # tries that may all exceed the limit by far before the search gives up
FAR = 2.0**10  # the factor by which restarts have been seen to better a first try


@dataclass(frozen=True)
class JunctionTree:
    """Maximal cliques of an elimination order, children before parents.

    Each clique eliminates some variables (listed first among its members) and keeps the others, its
    separator, in common with its parent; members are in elimination order."""

    graph: FactorGraph
    order: Integers  # [variables], first eliminated first
    clique_of: Integers  # [variables]: the clique that eliminates the variable
    parent: Integers  # [cliques], -1 for roots
    clique_start: Integers  # [cliques + 1], into members
    members: Integers
    eliminated: Integers  # [cliques]: how many of its members a clique eliminates

    @property
    def cliques(self) -> int:
        return len(self.parent)

    def clique(self, number: int) -> Integers:
        """Variables of a clique."""
        return self.members[self.clique_start[number] : self.clique_start[number + 1]]

    def separator(self, number: int) -> Integers:
        """Variables a clique shares with its parent."""
        return self.clique(number)[self.eliminated[number] :]

    @cached_property
    def log_cells(self) -> np.ndarray:
        """Natural log of the cells of each clique, ``[cliques]``."""
        return self._sums(np.log(self.graph.cardinalities[self.members]))

    @cached_property
    def log_separator_cells(self) -> np.ndarray:
        """Natural log of the cells of each separator, ``[cliques]``."""
        within = np.arange(len(self.members)) - np.repeat(self.clique_start[:-1], np.diff(self.clique_start))
        kept = within >= np.repeat(self.eliminated, np.diff(self.clique_start))
        return self._sums(np.where(kept, np.log(self.graph.cardinalities[self.members]), 0.0))

    @property
    def total_cells(self) -> float:
        """Cells of all cliques: what one pass over the tree visits."""
        return float(np.exp(self.log_cells).sum())

    @property
    def separator_cells(self) -> float:
        """Cells of all separators: what exact inference stores, twice."""
        return float(np.exp(self.log_separator_cells).sum())

    @property
    def induced_width(self) -> int:
        """Members of the clique of most members, less one."""
        return int(np.diff(self.clique_start).max(initial=0)) - 1 if self.cliques else 0

    @cached_property
    def ports(self) -> Ports:
        """The tree with its factors, as the kernels read it (computed once)."""
        from loopwise.graph.kernels.ports import connect

        graph = self.graph
        groups = [group for group in graph.groups if group.arity]
        arities = np.concatenate([_NONE, *(np.full(group.count, group.arity) for group in groups)])
        cells = np.concatenate([_NONE, *(np.full(group.count, group.cells) for group in groups)])
        scopes = np.concatenate([_NONE, *(group.scopes.reshape(-1) for group in groups)])
        position = np.empty(graph.variables, dtype=np.int64)
        position[self.order] = np.arange(graph.variables)
        ports: Ports = connect(
            self.members, self.clique_start, self.eliminated, self.parent, self.clique_of, position,
            graph.cardinalities, graph.layout.state_start, (starts_of(arities), scopes, starts_of(cells)[:-1]),
        )  # fmt: skip
        return ports

    def _sums(self, values: np.ndarray) -> np.ndarray:
        # Cliques are never empty, so every segment is one.
        return np.add.reduceat(values, self.clique_start[:-1]) if self.cliques else np.zeros(0)


def junction_tree(
    graph: FactorGraph, *, seed: int = 0, restarts: int = RESTARTS, cell_limit: float = LARGEST_TOTAL
) -> JunctionTree | None:
    """The junction tree of least total cells among greedy orders, or None if all tries exceed ``cell_limit``.

    Tries min-fill, weighted min-fill and min-weight, then up to ``restarts`` randomised ones, most of which
    keep the beginning of the best order so far, for as long as searching is cheap against the work it could
    save (counted in steps, not seconds: the result depends on ``seed`` alone). A try takes about O(sum of
    squared clique sizes)."""
    from loopwise.graph.kernels.elimination import maximal_cliques

    if graph.variables == 0:
        return JunctionTree(graph, _NONE, _NONE, _NONE, np.zeros(1, dtype=np.int64), _NONE, _NONE)
    best = _search(graph, np.random.default_rng(seed), restarts, cell_limit)
    if best is None:
        return None
    tree = JunctionTree(graph, best[0], *maximal_cliques(*best))
    return tree if tree.total_cells <= cell_limit else None


def _search(
    graph: FactorGraph, rng: np.random.Generator, restarts: int, cell_limit: float
) -> tuple[Integers, Integers, Integers] | None:
    """Order, bucket starts and buckets of the best try."""
    from loopwise.graph.kernels.elimination import CLIQUE, FILL, eliminate, initial_fill

    start, neighbours = _neighbours(graph)
    log_size = np.log(graph.cardinalities)
    # Edges weigh the product of the logs: variables of one value weigh nothing, and sums stay in range.
    weights = [log_size] if graph.uniform_cardinality is not None else [np.ones(graph.variables), log_size]
    rules = [(CLIQUE, log_size, initial_fill(start, neighbours, log_size))]
    rules += [(FILL, weight, initial_fill(start, neighbours, weight)) for weight in weights]
    best, order, least, steps = None, _NONE, 2 * FAR * cell_limit, 0.0
    for attempt in range(len(rules) + restarts):
        chosen, noise, prefix = attempt, 0.0, _NONE
        if attempt >= len(rules):  # what did best on real networks: mostly weighted fill, all amounts of noise
            chosen = len(rules) - 1 if rng.random() < 0.8 else int(rng.integers(len(rules)))
            noise = float(rng.choice([0.0, 0.2, 0.5, 1.0]))
            prefix = order[: int(len(order) * rng.random())] if rng.random() < 0.8 else _NONE
        rule, weight, fill = rules[chosen]
        done, tried, bucket_start, buckets, total, work = eliminate(
            start, neighbours, (fill, weight, log_size), rule, noise, rng, prefix, (math.log(FAR * cell_limit), least)
        )
        steps += work + graph.variables
        if done and total < least:
            best, order, least = (tried, bucket_start, buckets), tried, total
        if best is None and attempt >= HOPELESS:
            break
        if attempt >= len(rules) - 1 and steps > min(STEPS_A_CELL * least, MOST_STEPS):
            break
    return best


def _neighbours(graph: FactorGraph) -> tuple[Integers, Integers]:
    from loopwise.graph.kernels.elimination import adjacency

    groups = [group for group in graph.groups if group.arity >= 2]
    arities = np.concatenate([_NONE, *(np.full(group.count, group.arity) for group in groups)])
    scopes = np.concatenate([_NONE, *(group.scopes.reshape(-1) for group in groups)])
    several = graph.cardinalities[scopes] > 1  # a variable of one value joins nothing
    arities = np.bincount(np.repeat(np.arange(len(arities)), arities)[several], minlength=len(arities))
    scopes = scopes[several]
    start, neighbours = adjacency(graph.variables, starts_of(arities), scopes)
    return start, neighbours
