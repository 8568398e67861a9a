r"""Piecewise training: every factor is normalised on its own, as if it were the whole model.

In: a graph, log-potentials, evidence with roles. Out: a number to minimise. Stage: loss. No inference is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import FREE, Evidence
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.inference.base import Inference
from loopwise.loss.likelihood import (
    LikelihoodObjective,
    Observed,
    cells_at,
    check_possible,
    check_tables_only,
    chosen_rows,
    model_batch,
    pick_cells,
)
from loopwise.potentials.fold import fold_unary


@dataclass(frozen=True)
class Piecewise(LikelihoodObjective):
    r"""Negative piecewise log-likelihood (Sutton and McCallum 2005).

    .. math:: -\sum_\alpha\Big[\eta_\alpha(x_\alpha) - \mathrm{LSE}_{x_\alpha'}\,\eta_\alpha(x_\alpha')\Big]

    Inputs are clamped in both terms; hidden and missing variables are summed out of the first term too, factor by
    factor. Factors without an output say nothing and are left out. With everything observed and every output in some
    factor, this is an upper bound on the exact negative log-likelihood; convex in log-linear parameters then.

    ``joint``: inputs are scored like outputs. ``share_unaries``: unary log-potentials are no pieces of their own, but
    divided evenly among the larger factors of their variable; a variable without any keeps their sum as its piece.
    Either way the first terms add up to the score of the configuration where nothing is hidden.

    No inference method is used: one may be given, or None. Time and memory: the cells of all tables, and two numbers
    for each factor and example.
    """

    joint: bool = False
    share_unaries: bool = False

    def per_example(
        self, inference: Inference | None, graph: FactorGraph, potentials: object, evidence: Evidence
    ) -> Tensor:
        check_tables_only(graph, self)
        observed = Observed.of(graph, evidence, self.joint)
        tables, batch = model_batch(graph, potentials, observed)
        like = next((table.new_empty(0) for table in tables.values()), torch.empty(0, dtype=torch.float64))
        if self.share_unaries:
            graph, tables = _shared_unaries(graph, tables, like)
        total = like.new_zeros(batch)
        for group in graph.groups:
            table = tables[group.name]
            scored = np.asarray(observed.scored[..., group.scopes].any(-1))  # [*batch, factors]
            total = total - _log_sums(group, table, observed.known, scored)  # first: it finds impossible values
            total = total + _log_sums(group, table, observed.given, scored)
        return total


def _log_sums(group: Group, table: Tensor, values: Integers, scored: NDArray[np.bool_]) -> Tensor:
    """log-sum-exp of the cells that agree with ``values``, added up over the ``scored`` factors: ``[*batch]``.

    Free axes are summed out before examples come in: once for every set of free axes, not once an example.
    """
    seen = (values != FREE)[..., group.scopes]  # [*batch, factors, arity]
    patterns = seen @ (1 << np.arange(group.arity, dtype=np.int64))
    total = table.new_zeros(())
    for pattern in np.unique(patterns[scored]):
        here = scored & (patterns == pattern)
        rows = np.flatnonzero(here.reshape(-1, group.count).any(0))
        observed = [axis for axis in range(group.arity) if pattern >> axis & 1]
        piece = Group(group.name, group.scopes[rows][:, observed], tuple(group.shape[axis] for axis in observed))
        sums = _log_sum(
            chosen_rows(group, table, rows), [axis - group.arity for axis in range(group.arity) if axis not in observed]
        )
        picked = pick_cells(piece, sums, cells_at(piece, torch.tensor(np.maximum(values, 0), device=table.device)))
        if not here[..., rows].all():
            picked = torch.where(torch.tensor(here[..., rows], device=table.device), picked, 0.0)
        check_possible(group, picked, rows)
        total = total + picked.sum(-1)
    return total


def _log_sum(table: Tensor, axes: list[int]) -> Tensor:
    """log-sum-exp over ``axes``; -inf throughout gives -inf, with gradient 0 instead of NaN."""
    if not axes:
        return table
    dead = torch.amax(table.detach(), axes, keepdim=True) == -torch.inf
    alive = torch.logsumexp(torch.where(dead, 0.0, table), axes)
    return torch.where(dead.reshape(alive.shape), -torch.inf, alive)


def _shared_unaries(
    graph: FactorGraph, tables: Mapping[str, Tensor], like: Tensor
) -> tuple[FactorGraph, dict[str, Tensor]]:
    """The same model without unary factors, but for variables that have no other."""
    layout = graph.layout
    unary = fold_unary(layout, tables, like)  # [*b, states]
    degree = torch.tensor(layout.degrees[layout.state_variable], dtype=like.dtype, device=like.device)
    share = unary / degree.clamp(min=1)
    scopes: dict[str, Integers] = {}
    shared: dict[str, Tensor] = {}
    for member in layout.message_groups:
        group = member.group
        table = tables[group.name]
        for axis, size in enumerate(group.shape):
            place = layout.state_start[group.scopes[:, axis]][:, None] + np.arange(size)
            part = share[..., torch.tensor(place, device=like.device)]  # [*b, factors, size]
            table = table + part.reshape(*part.shape[:-1], *(1,) * axis, size, *(1,) * (group.arity - axis - 1))
        scopes[group.name], shared[group.name] = group.scopes, table
    alone = np.flatnonzero(layout.degrees == 0)
    for size in np.unique(graph.cardinalities[alone]):
        name = f"unary of {size}"
        while name in scopes:
            name += "'"
        scopes[name] = alone[graph.cardinalities[alone] == size][:, None]
        place = layout.state_start[scopes[name]] + np.arange(size)
        shared[name] = unary[..., torch.tensor(place, device=like.device)]
    return FactorGraph(graph.cardinalities, scopes), shared
