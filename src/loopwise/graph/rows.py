"""The parts of a union side by side: rows of equal length, for what looks at one part at a time.

In: a :class:`Union`. Out: :class:`Rows`, the integers that put flat values of the union into rows and back. Stage:
structure. Inference runs on the union itself, without padding; rows are for decoders and measures of whole examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from loopwise.graph.factor_graph import FactorGraph, Integers

if TYPE_CHECKING:
    from loopwise.graph.union import Union


class RowGraph(FactorGraph):
    """The variables of one row, without factors: those of the parts differ, and stay in the union."""

    def __init__(self, cardinalities: Integers, union: Union) -> None:
        super().__init__(cardinalities, {})
        self.union = union


@dataclass(frozen=True, eq=False)
class Rows:
    """Where each variable of a union stands in a table of one row a part.

    Variables of equally many values share columns, so each keeps its values: first those with fewest, and within these
    each part's own in order. Where all have equally many, column ``i`` is variable ``i`` of the part. Columns that a
    part does not fill are padding.
    """

    union: Union
    graph: RowGraph
    column: Integers  # [variables of the union]

    @staticmethod
    def of(union: Union) -> Rows:
        """Columns for the longest parts."""
        sizes, part = union.graph.cardinalities, union.variable_part
        column = np.zeros(len(sizes), dtype=np.int64)
        width, kept = 0, []
        for size in np.unique(sizes):
            members = np.flatnonzero(sizes == size)
            counts = np.bincount(part[members], minlength=len(union.parts))
            first = np.cumsum(counts) - counts
            column[members] = width + np.arange(len(members)) - first[part[members]]
            width += int(counts.max())
            kept.append(np.full(int(counts.max()), size))
        cardinalities = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
        return Rows(union, RowGraph(cardinalities, union), column)

    def __len__(self) -> int:
        return len(self.union.parts)

    @cached_property
    def variable_place(self) -> Integers:
        """The place of each variable of the union in the flattened table ``[parts, columns]``."""
        return self.union.variable_part * self.graph.variables + self.column

    @cached_property
    def state_place(self) -> Integers:
        """The place of each state of the union in the flattened table ``[parts, states of a row]``."""
        layout, whole = self.graph.layout, self.union.graph.layout
        first = self.union.variable_part * layout.states + layout.state_start[self.column]
        value = np.arange(whole.states) - whole.state_start[whole.state_variable]
        return first[whole.state_variable] + value

    @cached_property
    def padding(self) -> Integers:
        """The first state of each variable that is padding, in the flattened table of states."""
        filled = np.zeros((len(self), self.graph.variables), dtype=np.bool_)
        filled.reshape(-1)[self.variable_place] = True
        row, column = np.nonzero(~filled)
        return row * self.graph.layout.states + self.graph.layout.state_start[column]

    @cached_property
    def as_they_stand(self) -> bool:
        """Whether the union in its own order is the table: parts of one size, nothing padded or moved."""
        whole = self.union.graph.variables == len(self) * self.graph.variables
        return whole and bool((self.variable_place == np.arange(self.union.graph.variables)).all())
