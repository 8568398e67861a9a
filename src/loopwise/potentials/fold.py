"""Folding small factors: arity 1 into its variable, arity 0 into a constant.

In: tables of a graph. Out: one log-potential a state, one constant an example, differentiable. Stage:
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.layout import Layout
from loopwise.potentials.checks import broadcast_batches


def fold_unary(layout: Layout, tables: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Sum of the unary log-potentials of each state, ``[*batch, states]`` (batch of the unary groups only).

    ``like`` gives dtype and device where there is no unary factor at all.
    """
    total = torch.zeros(layout.states, dtype=like.dtype, device=like.device)
    for group in layout.unary_groups:
        table = tables[group.name].expand(*tables[group.name].shape[:-2], group.count, *group.shape)
        batch = table.shape[:-2]
        flat = table.flatten(-2)
        index = layout.state_start[group.scopes[:, 0]][:, None] + np.arange(group.shape[0])
        index = index.reshape(-1)
        if np.array_equal(index, np.arange(layout.states)):
            total = total + flat  # the common case: one unary factor for each variable, in order
            continue
        shape = broadcast_batches(batch, total.shape[:-1])
        total = total.expand(*shape, layout.states).clone()
        place = torch.tensor(index, device=total.device)
        total = total.index_add(-1, place, flat.expand(*shape, flat.shape[-1]))
    return total


def fold_constants(layout: Layout, tables: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Sum of the factors of arity 0, ``[*batch]``."""
    total = torch.zeros((), dtype=like.dtype, device=like.device)
    for group in layout.constant_groups:
        table = tables[group.name]
        total = total + table.expand(*table.shape[:-1], group.count).sum(-1)
    return total
