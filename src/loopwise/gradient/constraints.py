r"""The local polytope as a sparse matrix: marginals :math:`\mu\ge0` are consistent if :math:`B\mu = d`.

In: a layout. Out: :class:`Constraints`. Stage: gradient (Domke spec, sections 1 and 5.2). Rows: the normalisation of
each variable, then, slot by slot, factor marginal minus variable marginal. Columns: states, then cells, as in
:class:`~loopwise.gradient.marginals.Natural`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import Integers
from loopwise.graph.layout import Layout

Floats = NDArray[np.float64]
Matrix = Any  # a scipy.sparse matrix; SciPy has no types


@dataclass(frozen=True, eq=False)
class Constraints:
    """B in its two parts, ``[variables + slots, states]`` and ``[variables + slots, cells]``.

    It has one redundant row for every factor and variable of it but the first: the rows of each of them add up to the
    normalisation of the factor (:meth:`independent`).
    """

    layout: Layout
    states: Matrix
    cells: Matrix

    @staticmethod
    def of(layout: Layout) -> Constraints:
        """Linear in the cells of all factors times their arity, no Python loop over factors."""
        from scipy.sparse import csr_matrix

        variables, slots = layout.graph.variables, layout.slots
        rows = np.concatenate([layout.state_variable, variables + np.arange(slots)])
        columns = np.concatenate([np.arange(layout.states), layout.slot_state])
        signs = np.concatenate([np.ones(layout.states), -np.ones(slots)])
        states = csr_matrix((signs, (rows, columns)), (variables + slots, layout.states))
        rows, columns, cells = _cell_entries(layout)
        inside = csr_matrix((np.ones(len(rows)), (variables + rows, columns)), (variables + slots, cells))
        return Constraints(layout, states, inside)

    @property
    def rows(self) -> int:
        return int(self.states.shape[0])

    def independent(self, state_marginals: Floats) -> NDArray[np.bool_]:
        """Rows that imply all others, ``[rows]``: of every variable of a factor but the first, the row of its most
        probable value is left out (any value would do; this one is never impossible)."""
        layout = self.layout
        keep = np.ones(self.rows, dtype=np.bool_)
        if not layout.edges:
            return keep
        sizes = layout.graph.cardinalities[layout.edge_variable]
        edge = np.repeat(np.arange(layout.edges), sizes)
        marginal = state_marginals[layout.slot_state]
        highest = np.maximum.reduceat(marginal, np.cumsum(sizes) - sizes)
        top = np.flatnonzero(marginal == highest[edge])
        _, place = np.unique(edge[top], return_index=True)  # ties: the first
        first = np.zeros(layout.edges, dtype=np.bool_)
        first[np.unique(layout.edge_factor, return_index=True)[1]] = True
        keep[layout.graph.variables + top[place[~first]]] = False
        return keep


def _cell_entries(layout: Layout) -> tuple[Integers, Integers, int]:
    """Slot and cell of every pair of a cell and a position, and the number of cells."""
    slots, cells, start = [], [], 0
    for member in layout.message_groups:
        group = member.group
        first = member.slot_start + np.arange(group.count) * member.width
        slots.append((first[:, None, None] + member.cell_slots).reshape(-1))
        number = start + np.arange(group.count * group.cells)
        cells.append(np.repeat(number, group.arity))
        start += group.count * group.cells
    nothing = np.zeros(0, dtype=np.int64)
    return np.concatenate([nothing, *slots]), np.concatenate([nothing, *cells]), start
