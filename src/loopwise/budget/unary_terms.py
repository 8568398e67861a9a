"""Single-variable terms of larger factors, added up and put into unary factors.

In: terms by group and axis. Out: log-potentials of states, or tables with the terms in their unary groups. Stage:
budget. A term in a unary factor counts from the start; inside a larger factor it would reach others one sweep later.
So terms move before training, not when a factor is pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.potentials.checks import broadcast_batches

Term = tuple[Group, int, Tensor]  # of which group and axis, [*batch, factors or 1, K]


def sum_terms(graph: FactorGraph, terms: Iterable[Term], rows: Mapping[str, Integers] | None = None) -> Tensor:
    """All terms by state, ``[*batch, states]``; ``rows``: the factors that the terms of a group are of, if not all."""
    layout = graph.layout
    total: Tensor | None = None
    for group, axis, term in terms:
        members = group.scopes[:, axis] if rows is None else group.scopes[rows[group.name], axis]
        places = torch.from_numpy((layout.state_start[members][:, None] + np.arange(group.shape[axis])).reshape(-1))
        flat = term.expand(*term.shape[:-2], len(members), group.shape[axis]).flatten(-2)
        total = flat.new_zeros(layout.states) if total is None else total
        batch = broadcast_batches(total.shape[:-1], flat.shape[:-1])
        wide = total.expand(*batch, layout.states)
        total = wide.index_add(-1, places.to(flat.device), flat.expand(*batch, flat.shape[-1]))
    if total is None:
        raise ValueError("there is no term to add up; give at least one")
    return total


def add_terms(graph: FactorGraph, tables: Mapping[str, Tensor], terms: Sequence[Term]) -> dict[str, Tensor]:
    """``tables`` with the terms added to the first unary factor of each variable; differentiable."""
    total, found = sum_terms(graph, terms), dict(tables)
    start, home = graph.layout.state_start, np.zeros(graph.variables, dtype=bool)
    for group in graph.groups:
        if group.arity != 1:
            continue
        variables = group.scopes[:, 0]
        first = ~home[variables] & (np.arange(group.count) == _first_place(variables))
        home[variables] = True
        places = torch.from_numpy(start[variables][:, None] + np.arange(group.shape[0])).to(total.device)
        here = torch.from_numpy(first)[:, None].to(total.device)
        found[group.name] = tables[group.name] + torch.where(here, total[..., places], 0.0)
    return found


def check_unaries(graph: FactorGraph, gated: Sequence[Group]) -> None:
    """Refuses a graph in which a variable of a gated factor has no unary factor to take its terms."""
    has = np.zeros(graph.variables, dtype=bool)
    for group in graph.groups:
        if group.arity == 1:
            has[group.scopes[:, 0]] = True
    for group in gated:
        without = group.scopes[~has[group.scopes]]
        if len(without):
            raise ValueError(
                f"variable {without[0]} has no unary factor, which would take the main effects of the factors of group "
                f"{group.name!r}: add unary factors to the graph, or measure strength by lw.budget.Raw()"
            )


def _first_place(variables: Integers) -> Integers:
    """For each entry the place of the first equal one."""
    _, first, inverse = np.unique(variables, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)]
