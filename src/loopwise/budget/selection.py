r"""Some of a graph's factors: the smaller graph, and the tables of it from those of the whole.

In: a graph, which factors stay. Out: :class:`Selection` (structure) and :class:`Selected` (a module of potentials).
Stage: budget. Index arrays and layout are made anew: a factor that is only multiplied by zero would still cost time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from loopwise.budget.strength import Strength
from loopwise.budget.unary_terms import Term, sum_terms
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.learn.system import graph_of

MAIN = "main effects"

Kept = Mapping[str, NDArray[np.bool_]]  # which factors of a group stay, [factors]; a group not named stays whole


@dataclass(frozen=True, eq=False)
class Selection:
    """Which factors stay, and where the single-variable terms of the others go.

    ``rows`` and ``dropped``: factors by group. ``mains``: unary groups of the smaller graph that take the terms of
    dropped factors, one a cardinality, with their variables.
    """

    source: FactorGraph
    graph: FactorGraph
    strength: Strength
    rows: dict[str, Integers]
    dropped: dict[str, Integers]
    mains: dict[str, Integers]

    @staticmethod
    def of(graph: FactorGraph, kept: Kept, strength: Strength) -> Selection:
        """Checks and makes the smaller graph; groups left without a factor go. O(factors)."""
        rows, dropped = {}, {}
        for name in kept:
            graph.group(name)
        for group in graph.groups:
            chosen = np.asarray(kept.get(group.name, np.ones(group.count, dtype=bool)))
            if chosen.shape != (group.count,) or chosen.dtype != bool:
                raise ValueError(
                    f"kept factors of group {group.name!r} must be True or False for each of {group.count}"
                )
            rows[group.name], dropped[group.name] = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        scopes = {
            group.name: group.scopes[rows[group.name]]
            for group in graph.groups
            if len(rows[group.name]) or not group.count
        }
        mains = _mains(graph, dropped) if strength.leaves_terms else {}
        scopes.update({name: variables[:, None] for name, variables in mains.items()})
        return Selection(graph, FactorGraph(graph.cardinalities, scopes), strength, rows, dropped, mains)

    def tables(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Log tables of the smaller graph, ``[*batch, factors, *shape]``, from those of the source; differentiable."""
        found = {}
        for group in self.source.groups:
            if self.graph_has(group.name):
                found[group.name] = _rows_of(tables[group.name], group, self.rows[group.name])
        if self.mains:
            total = self._terms(tables)
            start = self.source.layout.state_start
            for name, variables in self.mains.items():
                size = int(self.source.cardinalities[variables[0]])
                found[name] = total[..., torch.from_numpy(start[variables][:, None] + np.arange(size))]
        return found

    def graph_has(self, name: str) -> bool:
        """Whether a group of the source has factors left."""
        return any(group.name == name for group in self.graph.groups)

    @property
    def everything_went(self) -> bool:
        """Whether factors were dropped and none of two or more variables is left."""
        left = any(group.arity >= 2 and group.count for group in self.graph.groups)
        return not left and any(len(rows) for rows in self.dropped.values())

    def _terms(self, tables: Mapping[str, Tensor]) -> Tensor:
        """Single-variable terms of all dropped factors, ``[*batch, states]``."""
        terms: list[Term] = []
        for group in self.source.groups:
            if len(self.dropped[group.name]):
                table = _rows_of(tables[group.name], group, self.dropped[group.name])
                _, found = self.strength.split(table, group.arity)
                terms += [(group, axis, term) for axis, term in enumerate(found)]
        return sum_terms(self.source, terms, self.dropped)


class Selected(nn.Module):
    """``potentials`` on the smaller graph of a selection: for tables that depend on inputs, or are trained on."""

    def __init__(self, potentials: nn.Module, selection: Selection) -> None:
        super().__init__()
        if graph_of(potentials) != selection.source:
            raise ValueError(
                f"the selection is of {selection.source!r}, the potentials are of {graph_of(potentials)!r}; "
                "make both for one graph"
            )
        self.potentials, self.selection, self.graph = potentials, selection, selection.graph

    def forward(self, *inputs: Any, **named: Any) -> dict[str, Tensor]:
        return self.selection.tables(self.potentials(*inputs, **named))


def _rows_of(table: Tensor, group: Group, rows: Integers) -> Tensor:
    axis = table.ndim - group.arity - 1
    if len(rows) == group.count:
        return table
    if table.shape[axis] == 1:  # tied: all factors have the same
        return table.expand(*table.shape[:axis], len(rows), *group.shape)
    return table.index_select(axis, torch.from_numpy(rows).to(table.device))


def _mains(graph: FactorGraph, dropped: Mapping[str, Integers]) -> dict[str, Integers]:
    """Unary groups for the variables of dropped factors."""
    touched = np.zeros(graph.variables, dtype=bool)
    for group in graph.groups:
        touched[group.scopes[dropped[group.name]].reshape(-1)] = True
    taken, found = {group.name for group in graph.groups}, {}
    for size in np.unique(graph.cardinalities[touched]):
        name = MAIN if graph.uniform_cardinality is not None else f"{MAIN} {size}"
        while name in taken:
            name += "'"
        found[name] = np.flatnonzero(touched & (graph.cardinalities == size))
    return found
