"""Folding small factors: arity 1 into its variable, arity 0 into a constant.

In: tables of a graph. Out: one log-potential a state, one constant an example, differentiable. Stage:
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from loopwise.graph.layout import Layout
from loopwise.potentials.checks import broadcast_batches


def fold_unary(layout: Layout, tables: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Sum of the unary log-potentials of each state, ``[*batch, states]`` (batch of the unary groups only).

    ``like`` gives dtype and device where there is no unary factor at all.
    """
    total: Tensor | None = None
    for group, states in layout.unary_states:
        table = tables[group.name]
        if table.shape[-2] != group.count:
            table = table.expand(*table.shape[:-2], group.count, *group.shape)
        flat = table.flatten(-2)
        if states is None:
            total = flat if total is None else total + flat
            continue
        if total is None:
            total = torch.zeros(layout.states, dtype=like.dtype, device=like.device)
        shape = broadcast_batches(flat.shape[:-1], total.shape[:-1])
        total = total.expand(*shape, layout.states)
        place = torch.tensor(states, device=total.device)
        total = total.index_add(-1, place, flat.expand(*shape, flat.shape[-1]))
    if total is None:
        return torch.zeros(layout.states, dtype=like.dtype, device=like.device)
    return total


def fold_constants(layout: Layout, tables: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Sum of the factors of arity 0, ``[*batch]``."""
    total = torch.zeros((), dtype=like.dtype, device=like.device)
    for group in layout.constant_groups:
        table = tables[group.name]
        total = total + table.expand(*table.shape[:-1], group.count).sum(-1)
    return total
