r"""Pseudo-likelihood: each output given everything else, which needs no inference at all.

In: a graph, log-potentials, evidence with roles. Out: a number to minimise. Stage: loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.evidence import FREE, Evidence
from loopwise.graph.factor_graph import FactorGraph, Group, Integers
from loopwise.inference.base import Inference
from loopwise.loss.likelihood import (
    LikelihoodObjective,
    Observed,
    cells_at,
    check_tables_only,
    chosen_rows,
    model_batch,
    pick_cells,
)
from loopwise.notices import ImpossibleError, in_example


@dataclass(frozen=True)
class PseudoLikelihood(LikelihoodObjective):
    r"""Negative log-pseudo-likelihood (Besag 1975).

    .. math:: -\sum_{i \in \text{outputs}} \log p(x_i \mid x_{\setminus i}), \qquad
              \log p(x_i \mid x_{\setminus i}) = \Big(\sum_{\alpha\ni i}\eta_\alpha(x_i, x_{\alpha\setminus i})\Big)
              - \mathrm{LSE}_{x_i'}\sum_{\alpha\ni i}\eta_\alpha(x_i', x_{\alpha\setminus i})

    Consistent where the model is right and everything is observed; convex in log-linear parameters. An output that
    shares a factor with a hidden or missing variable has no such conditional: that is an error. Hidden variables
    elsewhere do no harm. ``joint``: inputs are scored like outputs.

    No inference method is used: one may be given, or None. Time and memory: for each factor and example, the sum of
    the cardinalities of its scored members.
    """

    joint: bool = False

    def per_example(
        self, inference: Inference | None, graph: FactorGraph, potentials: object, evidence: Evidence
    ) -> Tensor:
        check_tables_only(graph, self)
        observed = Observed.of(graph, evidence, self.joint)
        tables, batch = model_batch(graph, potentials, observed)
        for group in graph.groups:
            _check_observed(group, observed)
        logits = _conditionals(graph, tables, observed, batch)
        total = logits.new_zeros(batch)
        for size in np.unique(graph.cardinalities):
            total = total + _log_loss(graph, logits, observed, int(size))
        return total


def _check_observed(group: Group, observed: Observed) -> None:
    scored, unknown = observed.scored[..., group.scopes], (observed.known == FREE)[..., group.scopes]
    mixed = np.argwhere(scored.any(-1) & unknown.any(-1))  # [*batch, factors]
    if not mixed.size:
        return
    place = tuple(int(index) for index in mixed[0])
    members = group.scopes[place[-1]]
    raise ValueError(
        f"pseudo-likelihood needs all neighbours of an output observed, but factor {place[-1]} of group {group.name!r} "
        f"joins output {members[scored[place]][0]} with variable {members[unknown[place]][0]}, which is hidden or "
        f"missing{in_example(list(place[:-1]))}: use SurrogateLikelihood or Piecewise, which sum it out"
    )


def _conditionals(graph: FactorGraph, tables: Mapping[str, Tensor], observed: Observed, batch: torch.Size) -> Tensor:
    """Log-potential of every value of every scored variable, all others as observed, ``[*batch, states]``.

    Values of variables that are never scored get no sum.
    """
    layout = graph.layout
    like = next((table.new_empty(0) for table in tables.values()), torch.empty(0, dtype=torch.float64))
    values = torch.tensor(np.maximum(observed.known, 0), device=like.device)  # what unknown ones say is not used
    ever = observed.ever_scored
    logits = like.new_zeros(*batch, layout.states)
    for group in graph.groups:
        for axis, size in enumerate(group.shape):
            rows = np.flatnonzero(ever[group.scopes[:, axis]])
            if not rows.size:
                continue
            sliced = _slices(group, tables[group.name], values.expand(*batch, -1), axis, rows)  # [*batch, rows, size]
            place = layout.state_start[group.scopes[rows, axis]][:, None] + np.arange(size)
            logits = logits.index_add(-1, torch.tensor(place.reshape(-1), device=like.device), sliced.flatten(-2))
    return logits


def _slices(group: Group, table: Tensor, values: Tensor, axis: int, rows: Integers) -> Tensor:
    """The tables of ``rows`` along ``axis``, all other members as in ``values``."""
    chosen = Group(group.name, group.scopes[rows], group.shape)
    stride = int(np.prod(group.shape[axis + 1 :], dtype=np.int64))
    own = values[..., torch.tensor(chosen.scopes[:, axis], device=values.device)]
    start = cells_at(chosen, values) - stride * own  # [*batch, rows], the member itself at 0
    along = stride * torch.arange(group.shape[axis], device=values.device)
    index = along.reshape(-1, *(1,) * start.ndim) + start  # [size, *batch, rows]
    return pick_cells(chosen, chosen_rows(group, table, rows), index).movedim(0, -1)


def _log_loss(graph: FactorGraph, logits: Tensor, observed: Observed, size: int) -> Tensor:
    """- log softmax at the observed value, summed over the scored variables of ``size`` values."""
    ever = observed.ever_scored
    variables = np.flatnonzero(ever & (graph.cardinalities == size))
    place = graph.layout.state_start[variables][:, None] + np.arange(size)
    block = logits[..., torch.tensor(place, device=logits.device)]  # [*batch, variables, size]
    scored = torch.tensor(observed.scored[..., variables], device=logits.device).expand(block.shape[:-1])
    gold = torch.tensor(np.maximum(observed.known[..., variables], 0), device=logits.device).expand(scored.shape)
    block = torch.where(scored[..., None], block, 0.0)  # where not scored, sums may be -inf throughout
    score = block.gather(-1, gold[..., None])[..., 0]
    dead = torch.isneginf(score.detach()).nonzero()
    if len(dead):
        *example, column = dead[0].tolist()
        raise ImpossibleError(
            f"impossible evidence: the zeros of the factors of variable {variables[column]} forbid its value "
            f"{int(gold[tuple(dead[0].tolist())])} beside those observed around it{in_example(example)}; "
            "relax a zero, or leave the example out"
        )
    return torch.where(scored, torch.logsumexp(block, -1) - score, 0.0).sum(-1)
