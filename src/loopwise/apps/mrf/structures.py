r"""Which variables of a table are joined by a factor: all pairs, a chain, a grid, a tree found in the data, your own.

In: rows as integers, roles. Out: pairs of variables ``[pairs, 2]``. Stage: use. Variables are the input columns, then
the outputs, then hidden ones; these, where a structure does not name them itself, are joined to every observed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.evidence import FREE, Role
from loopwise.graph.factor_graph import Integers, variable_range

Floats = NDArray[np.float64]


class Structure(Protocol):
    """A choice of pairs."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        """``[pairs, 2]`` for rows ``values`` ``[rows, variables]`` (-1: missing), ``roles`` ``[variables]``."""
        ...


@dataclass(frozen=True)
class Complete:
    """Every pair of columns."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        seen = _observed(roles)
        first, second = np.triu_indices(len(seen), 1)
        return _with_hidden(np.stack([seen[first], seen[second]], axis=1), roles)


@dataclass(frozen=True)
class ToOutputs:
    """Every input with every output, and every pair of outputs: all that a conditional model needs if no input is ever
    missing. Fewest weights for many columns."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        every = Complete().pairs(values, cardinalities, roles)
        kept: Integers = every[(roles[every] != Role.INPUT).any(axis=1)]
        return kept


@dataclass(frozen=True)
class Chain:
    """Each column with the next."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        seen = _observed(roles)
        return _with_hidden(np.stack([seen[:-1], seen[1:]], axis=1), roles)


@dataclass(frozen=True)
class Grid:
    """Columns are the places of a grid, row by row, each joined to its right and lower neighbour."""

    rows: int
    columns: int

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        seen = _observed(roles)
        if self.rows * self.columns != len(seen):
            raise ValueError(
                f"a grid of {self.rows} x {self.columns} has {self.rows * self.columns} places, the table has "
                f"{len(seen)} columns; both must be the same"
            )
        place = seen.reshape(self.rows, self.columns)
        across = np.stack([place[:, :-1].reshape(-1), place[:, 1:].reshape(-1)], axis=1)
        down = np.stack([place[:-1].reshape(-1), place[1:].reshape(-1)], axis=1)
        return _with_hidden(np.concatenate([across, down]), roles)


@dataclass(frozen=True)
class Tree:
    r"""The tree of largest total mutual information between joined columns (Chow & Liu 1968).

    Of all trees it has the likelihood nearest to the data's; BP is exact on it. Mutual information is that of the rows
    in which both values are known. O(rows x states^2) by one matrix product.
    """

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        from scipy.sparse.csgraph import minimum_spanning_tree

        seen = _observed(roles)
        shared = mutual_information(values[:, seen], [cardinalities[place] for place in seen.tolist()])
        # The routine looks for the least tree and takes 0 for no edge.
        tree = minimum_spanning_tree(np.triu(shared.max() + 1.0 - shared, 1)).tocoo()
        order = np.lexsort((tree.col, tree.row))
        return _with_hidden(np.stack([seen[tree.row[order]], seen[tree.col[order]]], axis=1), roles)


@dataclass(frozen=True)
class Edges:
    """The pairs given, by number: input columns first, then outputs, then hidden variables."""

    edges: tuple[tuple[int, int], ...]

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        found: dict[tuple[int, int], None] = {}
        for one, other in self.edges:
            for place in (one, other):
                if not 0 <= place < len(roles):
                    raise ValueError(f"edge ({one}, {other}) names variable {place}; {variable_range(len(roles))}")
            if one == other:
                raise ValueError(f"edge ({one}, {other}) joins a variable with itself; leave it out")
            found[min(one, other), max(one, other)] = None
        return np.array(list(found), dtype=np.int64).reshape(-1, 2)


def mutual_information(values: Integers, cardinalities: Sequence[int]) -> Floats:
    r""":math:`\sum_{xy}\hat p(x,y)\log\frac{\hat p(x,y)}{\hat p(x)\hat p(y)}` of each pair, ``[variables, variables]``.

    Over the rows in which both values of a pair are known; 0 where there are none.
    """
    start = np.concatenate([[0], np.cumsum(cardinalities)])[:-1]
    owner = np.repeat(np.arange(len(cardinalities)), cardinalities)
    present = np.zeros((len(values), len(owner)))
    row, variable = np.nonzero(values != FREE)
    present[row, start[variable] + values[row, variable]] = 1.0
    both = present.T @ present  # [states, states]: rows that have both values
    alone = np.add.reduceat(both, start, axis=1)  # [states, variables]: those that have this one and know the other
    rows = np.add.reduceat(alone, start, axis=0)  # [variables, variables]: those that know both
    by_chance = alone[:, owner] * alone[:, owner].T
    known = both > 0
    terms = np.zeros_like(both)
    ratio = both[known] * rows[owner][:, owner][known] / by_chance[known]
    terms[known] = both[known] * np.log(ratio)
    found = np.add.reduceat(np.add.reduceat(terms, start, axis=0), start, axis=1)
    return np.where(rows > 0, found / np.maximum(rows, 1.0), 0.0)


def _observed(roles: Integers) -> Integers:
    return np.flatnonzero(roles != Role.HIDDEN)


def _with_hidden(pairs: Integers, roles: Integers) -> Integers:
    """The pairs, and every observed variable with every hidden one."""
    hidden = np.flatnonzero(roles == Role.HIDDEN)
    if not len(hidden):
        return pairs
    seen = _observed(roles)
    extra = np.stack([np.tile(seen, len(hidden)), np.repeat(hidden, len(seen))], axis=1)
    return np.concatenate([pairs, extra])
