"""Shortest cycles of a factor graph, and how strongly factors tie their variables.

In: a graph's layout, a set of variables; log tables. Out: cycles as places of edges; nats. Stage: inference.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.layout import Layout

CANDIDATES = 64  # of shortest cycles that are compared
HARD = 30.0  # nats that stand for a hard zero


@dataclass(frozen=True, eq=False)
class Ties:
    """The factors of arity 2 and more of a graph, numbered as their edges are."""

    layout: Layout

    @cached_property
    def owners(self) -> list[tuple[str, int, int]]:
        """Where factors of a name begin: name, number of the first, how many."""
        found, first = [], 0
        for member in self.layout.message_groups:
            found.append((member.group.name, first, member.group.count))
            first += member.group.count
        for named in self.layout.graph.structured:
            found.append((named.name, first, named.count))
            first += named.count
        return found

    @cached_property
    def edge_factor(self) -> Integers:
        """The factor of each edge, ``[edges]``."""
        layout = self.layout
        arities = [np.full(member.group.count, member.group.arity) for member in layout.message_groups]
        arities.append(np.array([member.factor.arity for member in layout.structured], dtype=np.int64))
        each = np.concatenate(arities).astype(np.int64)
        return np.repeat(np.arange(len(each)), each)

    def named(self, factor: int) -> tuple[str, int]:
        """The group of a factor, and its row there."""
        name, first, _ = next(entry for entry in self.owners if entry[1] <= factor < entry[1] + entry[2])
        return name, factor - first

    def within(self, among: NDArray[np.bool_]) -> CyclePart:
        """The part of the graph that joins some variables, ``[variables]``."""
        return CyclePart(self, among)


class CyclePart:
    """Neighbours in the part of a graph that joins some variables. Nodes: variables, and after them factors."""

    def __init__(self, ties: Ties, among: NDArray[np.bool_]) -> None:
        variable, factor = ties.layout.edge_variable, ties.edge_factor
        kept = np.flatnonzero(among[variable])
        count = np.bincount(factor[kept], minlength=int(factor.max(initial=-1)) + 1)
        kept = kept[count[factor[kept]] >= 2]
        self.offset = ties.layout.graph.variables  # factors are nodes after the variables
        ends = np.concatenate([variable[kept], factor[kept] + self.offset])
        others = np.concatenate([factor[kept] + self.offset, variable[kept]])
        order = np.argsort(ends, kind="stable")
        self.others = others[order]
        self.start = np.searchsorted(ends[order], np.arange(self.offset + len(count) + 1))

    def _neighbours(self, node: int) -> list[int]:
        found: list[int] = self.others[self.start[node] : self.start[node + 1]].tolist()
        return found

    def cycles(self, root: int) -> list[tuple[list[int], list[int]]]:
        """The shortest cycles through a variable: the variables of each, and the factor after each of these.

        Breadth-first from the variable: where two ways that left it by different factors meet, a cycle closes.
        """
        parent, branch, depth = {root: -1}, {root: -1}, {root: 0}
        found: list[list[int]] = []
        shortest = 0
        queue = deque([root])
        while queue and len(found) < CANDIDATES:
            node = queue.popleft()
            if shortest and 2 * depth[node] + 1 > shortest:
                break
            for other in self._neighbours(node):
                if other == parent[node]:
                    continue
                if other not in parent:
                    parent[other], depth[other] = node, depth[node] + 1
                    branch[other] = other if node == root else branch[node]
                    queue.append(other)
                elif other != root and branch[other] != branch[node]:
                    length = depth[node] + depth[other] + 1
                    if not shortest or length == shortest:
                        shortest = length
                        found.append(self._joined(parent, node, other))
        unique = {frozenset(cycle): cycle for cycle in found}
        return [self._parted(cycle) for cycle in unique.values()]

    def _joined(self, parent: dict[int, int], one: int, other: int) -> list[int]:
        """From the root to ``one``, over to ``other``, and back to the root, which stands once."""
        there, back = [one], [other]
        for way in (there, back):
            while parent[way[-1]] != -1:
                way.append(parent[way[-1]])
        return there[::-1] + back[:-1]

    def _parted(self, cycle: list[int]) -> tuple[list[int], list[int]]:
        return cycle[0::2], [node - self.offset for node in cycle[1::2]]


def strengths(table: Tensor) -> Tensor:
    """How strongly each factor of a group ties its variables, in nats, ``[factors]``.

    The largest number of a log table ``[factors, *shape]`` after what its variables say one by one is taken out: of
    ``[[J, -J], [-J, J]]`` it is J, of a sum of single potentials 0.

    >>> import torch
    >>> strengths(torch.tensor([[[2.0, -2.0], [-2.0, 2.0]], [[0.0, 1.0], [1.0, 2.0]]]))
    tensor([2., 0.])
    """
    left = table.detach().clamp(min=-HARD)
    axes = tuple(range(1, table.ndim))
    left = left - left.mean(axes, keepdim=True)
    for axis in axes:
        others = tuple(other for other in axes if other != axis)
        left = left - left.mean(others, keepdim=True)
    return left.abs().amax(axes)


def sign(table: Tensor) -> int:
    """1 where a pair of binary variables would rather agree, -1 where it would rather differ, 0 for neither."""
    value = float((table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]).nan_to_num(0.0))
    return (value > 0) - (value < 0)
