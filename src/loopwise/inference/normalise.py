"""Sums and normalisation in the log domain, in torch, right at -inf and differentiable there.

In: log values. Out: log sums, probabilities. Stage: inference.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.layout import Layout, MessageGroup


def divided(values: Tensor, divisor: Tensor | float) -> Tensor:
    """``values / divisor`` for a positive divisor, whose own adjoint does not see values of -inf."""
    if not isinstance(divisor, Tensor) or not divisor.requires_grad:
        return values / divisor
    forbidden = torch.isneginf(values)
    return torch.where(forbidden, -torch.inf, torch.where(forbidden, 0.0, values) / divisor)


def variable_softmax(layout: Layout, values: Tensor) -> Tensor:
    """Beliefs from log beliefs ``[*batch, states]`` of any scale."""
    size = layout.graph.uniform_cardinality
    if size is not None:
        return values.reshape(*values.shape[:-1], -1, size).softmax(-1).reshape(values.shape)
    owner = torch.tensor(layout.state_variable, device=values.device)
    return torch.exp(values - log_sum_by(values, owner, layout.graph.variables)[..., owner])


def rescaled(layout: Layout, states: Tensor) -> Tensor:
    """Beliefs ``[*batch, states]`` divided by their sums over the values of each variable."""
    owner = torch.tensor(layout.state_variable, device=states.device)
    total = states.new_zeros(*states.shape[:-1], layout.graph.variables).index_add(-1, owner, states)
    return states / total[..., owner]


def normalised_messages(layout: Layout, messages: Tensor) -> Tensor:
    """Log messages ``[*batch, slots]`` that sum to one."""
    sizes = layout.graph.cardinalities[layout.edge_variable]
    owner = torch.tensor(np.repeat(np.arange(layout.edges), sizes), device=messages.device)
    return messages - log_sum_by(messages, owner, layout.edges)[..., owner]


def factor_softmax(member: MessageGroup, table: Tensor, to_factors: Tensor) -> Tensor:
    """Beliefs ``[examples, factors, cells]`` of one group from its log table ``[*b, factors, cells]`` and log messages
    ``[examples, slots]``."""
    group = member.group
    block = to_factors[:, member.slot_start : member.slot_start + group.count * member.width]
    parts = torch.split(block.reshape(len(to_factors), group.count, member.width), list(group.shape), dim=-1)
    joint = table.reshape(*table.shape[:-1], *group.shape)
    for position, part in enumerate(parts):
        alone = [size if axis == position else 1 for axis, size in enumerate(group.shape)]
        joint = joint + part.reshape(len(to_factors), group.count, *alone)
    return joint.flatten(-group.arity).softmax(-1)


def log_sum(values: Tensor, axes: list[int], keepdim: bool = False) -> Tensor:
    """logsumexp whose gradient at an all -inf slice is 0 instead of NaN."""
    if not axes:
        return values
    high = values.detach().amax(axes, keepdim=True)
    high = torch.where(torch.isneginf(high), 0.0, high)
    total = torch.exp(values - high).sum(axes, keepdim=True)
    dead = total == 0
    result = torch.where(dead, -torch.inf, torch.log(torch.where(dead, 1.0, total)) + high)
    return result if keepdim else result.squeeze(axes)


def normalised(message: Tensor) -> Tensor:
    mass = log_sum(message, [-1], keepdim=True)
    return torch.where(torch.isneginf(mass), message, message - torch.where(torch.isneginf(mass), 0.0, mass))


def log_sum_by(values: Tensor, owner: Tensor, owners: int) -> Tensor:
    """logsumexp of the values of each owner, ``[*batch, owners]``."""
    shape = (*values.shape[:-1], owners)
    index = owner.expand(values.shape)
    high = torch.full(shape, -torch.inf, dtype=values.dtype, device=values.device)
    high = high.scatter_reduce(-1, index, values.detach(), "amax")
    high = torch.where(torch.isneginf(high), 0.0, high)
    total = torch.zeros(shape, dtype=values.dtype, device=values.device)
    total = total.index_add(-1, owner, torch.exp(values - high[..., owner]))
    dead = total == 0
    return torch.where(dead, -torch.inf, torch.log(torch.where(dead, 1.0, total)) + high)
