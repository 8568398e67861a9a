"""Leaving out impossible values before exact inference: deterministic networks shrink by orders of magnitude.

In: a graph and which cells of its tables are possible. Out: a :class:`StatePruning`: a smaller graph and where its
cells and states lie in the large one. Stage: inference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loopwise.graph.elimination import JunctionTree
from loopwise.graph.factor_graph import FactorGraph, Integers, shape_name
from loopwise.graph.offsets import starts_of
from loopwise.inference.exact.junction_tree import Calibration, Floats

_NONE = np.zeros(0, dtype=np.int64)
SWEEPS = 100  # propagation stops after so many: pruning less than possible is only slower


@dataclass(frozen=True)
class StatePruning:
    """A graph over the possible values only; every variable and factor is still there."""

    graph: FactorGraph
    cells: Integers  # [cells of the small graph]: which cell of the large one each is
    states: Integers  # [states of the small graph]: likewise
    source_cells: int  # of the large graph
    source_states: int
    values: Integers  # [states of the small graph]: the value each stands for
    empty: int | None  # a variable without possible values: the model is impossible

    @staticmethod
    def of(graph: FactorGraph, possible: np.ndarray) -> StatePruning | None:
        """``possible``: boolean ``[cells]``, factors of arity 1 and more group by group. None if nothing is
        pruned.
        """
        from loopwise.inference.kernels.pruning import possible_values

        groups = [group for group in graph.groups if group.arity]
        arities = np.concatenate([_NONE, *(np.full(group.count, group.arity) for group in groups)])
        scopes = np.concatenate([_NONE, *(group.scopes.reshape(-1) for group in groups)])
        start = starts_of(arities)
        layout = graph.layout
        alive = possible_values(start, scopes, graph.cardinalities, layout.state_start, possible, SWEEPS)
        if alive.all():
            return None
        # Every variable has a value, so every segment is one.
        left = np.add.reduceat(alive.astype(np.int64), layout.state_start[:-1])
        dead = np.flatnonzero(left == 0)
        if dead.size:
            return StatePruning(graph, _NONE, _NONE, len(possible), layout.states, _NONE, int(dead[0]))
        small, cells = _restricted(graph, alive, left)
        states = np.flatnonzero(alive)
        values = states - layout.state_start[layout.state_variable[states]]
        return StatePruning(small, cells, states, len(possible), layout.states, values, None)


def _restricted(graph: FactorGraph, alive: np.ndarray, left: Integers) -> tuple[FactorGraph, Integers]:
    """The graph over the values alive, and the cells of each of its factors."""
    start = graph.layout.state_start
    kept = [np.flatnonzero(alive[start[variable] : start[variable + 1]]) for variable in range(graph.variables)]
    scopes: dict[tuple[int, ...], list[Integers]] = {}
    cells: dict[tuple[int, ...], list[Integers]] = {}
    offset = 0
    for group in graph.groups:
        if group.arity == 0:
            continue
        steps = np.cumprod([1, *group.shape[:0:-1]])[::-1]
        for scope in group.scopes:
            place = np.full(1, offset, dtype=np.int64)
            for variable, step in zip(scope, steps, strict=True):
                place = (place[:, None] + kept[variable] * step).reshape(-1)
            shape = tuple(int(left[variable]) for variable in scope)
            scopes.setdefault(shape, []).append(scope)
            cells.setdefault(shape, []).append(place)
            offset += group.cells
    small = FactorGraph(left, {shape_name(shape): np.stack(rows) for shape, rows in scopes.items()})
    return small, np.concatenate([_NONE, *(place for shape in scopes for place in cells[shape])])


class PrunedCalibration:
    """A :class:`Calibration` of the small graph that answers for the large one: what is impossible has no
    probability.
    """

    def __init__(self, pruning: StatePruning, tree: JunctionTree, theta: Floats, maximise: bool) -> None:
        self.pruning, self.maximise = pruning, maximise
        self.inner = Calibration(tree, np.ascontiguousarray(theta[:, pruning.cells]), maximise)
        self.log_partition = self.inner.log_partition

    @property
    def states(self) -> Floats:
        return self._widened(self.inner.states, self.pruning.states, self.pruning.source_states)

    @cached_property
    def factors(self) -> Floats:
        return self._widened(self.inner.factors, self.pruning.cells, self.pruning.source_cells)

    def tangent(self, seed_theta: Floats | None = None, seed_states: Floats | None = None) -> Floats:
        along_factors = None if seed_theta is None else np.ascontiguousarray(seed_theta[:, self.pruning.cells])
        along_states = None if seed_states is None else np.ascontiguousarray(seed_states[:, self.pruning.states])
        inner = self.inner.tangent(along_factors, along_states)
        return self._widened(inner, self.pruning.cells, self.pruning.source_cells)

    @property
    def assignment(self) -> Integers:
        return self._renamed(self.inner.assignment)

    def sample(self, count: int, generator: np.random.Generator) -> Integers:
        return self._renamed(self.inner.sample(count, generator))

    def _widened(self, values: Floats, place: Integers, width: int) -> Floats:
        full = np.zeros((len(values), width))
        full[:, place] = values
        return full

    def _renamed(self, configurations: Integers) -> Integers:
        values: Integers = self.pruning.values[self.pruning.graph.layout.state_start[:-1] + configurations]
        return values
