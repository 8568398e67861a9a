"""Slicing observed variables out of tables: the numerical half.

In: tables and a :class:`~loopwise.graph.conditioning.Conditioning`. Out: tables of the smaller graph; and, on
the way back, beliefs of the smaller graph put into the full one. Stage: numbers. All of it is differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.conditioning import Conditioning, Piece
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Group
from loopwise.potentials.checks import broadcast_batches


def slice_tables(plan: Conditioning, tables: Mapping[str, Tensor], values: Tensor, like: Tensor) -> dict[str, Tensor]:
    """Tables of the smaller graph. ``values``: clamped values ``[*batch, variables]`` on the tables' device.

    ``like`` gives the dtype of point masses. Cost: one gather a group; groups that lose no axis are passed on
    without a copy, batch dimensions unexpanded.
    """
    sliced = {
        piece.target: _slice(plan.source.group(piece.source), piece, tables[piece.source], values)
        for piece in plan.pieces
    }
    for name, clamped in plan.point_masses.items():
        wanted = values[..., torch.tensor(clamped, device=values.device)]  # [*batch, clamped]
        states = torch.arange(plan.graph.group(name).shape[0], device=values.device)
        allowed = (wanted[..., None] == states) | (wanted[..., None] == FREE)
        sliced[name] = torch.where(allowed, 0.0, -torch.inf).to(like.dtype)
    return sliced


def restore_variables(plan: Conditioning, beliefs: Tensor, values: Tensor) -> Tensor:
    """Beliefs of the smaller graph ``[*batch, its states]`` among point masses: ``[*batch, states]``."""
    layout = plan.source.layout
    batch = broadcast_batches(beliefs.shape[:-1], values.shape[:-1])
    full = torch.zeros(*batch, layout.states, dtype=beliefs.dtype, device=beliefs.device)
    is_free = np.zeros(plan.source.variables, dtype=bool)
    is_free[plan.free] = True
    kept = torch.tensor(np.flatnonzero(is_free[layout.state_variable]), device=beliefs.device)
    full = full.index_copy(-1, kept, beliefs.expand(*batch, beliefs.shape[-1]))
    starts = torch.tensor(layout.state_start[plan.observed], device=beliefs.device)
    ones = starts + values[..., torch.tensor(plan.observed, device=beliefs.device)]
    ones = ones.expand(*batch, ones.shape[-1])
    return full.scatter(-1, ones, torch.ones_like(ones, dtype=full.dtype))


def restore_factors(
    plan: Conditioning,
    name: str,
    beliefs: Callable[[str], Tensor],
    values: Tensor,
    batch: torch.Size,
    like: Tensor,
) -> Tensor:
    """Beliefs of group ``name`` of the source graph, ``[*batch, factors, *shape]``, from its pieces.

    ``beliefs`` gives those of a group of the smaller graph, and is asked only for the pieces of ``name``.
    """
    group = plan.source.group(name)
    pieces = [piece for piece in plan.pieces if piece.source == name]
    if len(pieces) == 1 and pieces[0].untouched:
        return beliefs(name)
    full = torch.zeros(*batch, group.count, *group.shape, dtype=like.dtype, device=like.device)
    for piece in pieces:
        rows = torch.tensor(piece.rows, device=full.device)
        full = full.index_copy(len(batch), rows, _unslice(group, piece, beliefs(piece.target), values, batch))
    return full


def _observed_cells(group: Group, piece: Piece, values: Tensor) -> Tensor:
    """Flat index over the observed axes of each factor's table, ``[*batch, rows]``."""
    index = torch.zeros((), dtype=torch.int64, device=values.device)
    for axis in piece.observed_axes:
        variables = torch.tensor(group.scopes[piece.rows, axis], device=values.device)
        index = index * group.shape[axis] + values[..., variables]
    return index


def _slice(group: Group, piece: Piece, table: Tensor, values: Tensor) -> Tensor:
    rows_axis = table.ndim - group.arity - 1
    whole = len(piece.rows) == group.count
    if not whole and table.shape[rows_axis] > 1:
        table = table.index_select(rows_axis, torch.tensor(piece.rows, device=table.device))
    if piece.untouched:
        return table
    flat = _observed_then_free(table, group, piece)  # [*batch, rows or 1, observed cells, free cells]
    index = _observed_cells(group, piece, values)  # [*batch, rows]
    shape = broadcast_batches(flat.shape[:-2], index.shape)
    index = index.expand(shape)[..., None, None].expand(*shape, 1, flat.shape[-1])
    picked = flat.expand(*shape, *flat.shape[-2:]).gather(-2, index)
    return picked.reshape(*shape, *(group.shape[axis] for axis in piece.free_axes))


def _unslice(group: Group, piece: Piece, beliefs: Tensor, values: Tensor, batch: torch.Size) -> Tensor:
    free_shape = [group.shape[axis] for axis in piece.free_axes]
    beliefs = beliefs.expand(*batch, len(piece.rows), *free_shape)
    if piece.untouched:
        return beliefs
    flat = beliefs.reshape(*batch, len(piece.rows), 1, math.prod(free_shape))
    observed_shape = [group.shape[axis] for axis in piece.observed_axes]
    full = flat.new_zeros(*batch, len(piece.rows), math.prod(observed_shape), flat.shape[-1])
    index = _observed_cells(group, piece, values).expand(*batch, len(piece.rows))[..., None, None]
    full = full.scatter(-2, index.expand(flat.shape), flat)
    full = full.reshape(*batch, len(piece.rows), *observed_shape, *free_shape)
    first = len(batch) + 1
    source_axes = [*piece.observed_axes, *piece.free_axes]
    back = [first + source_axes.index(axis) for axis in range(group.arity)]
    return full.permute(*range(first), *back)


def _observed_then_free(table: Tensor, group: Group, piece: Piece) -> Tensor:
    first = table.ndim - group.arity
    axes = [first + axis for axis in (*piece.observed_axes, *piece.free_axes)]
    observed = math.prod(group.shape[axis] for axis in piece.observed_axes)
    return table.permute(*range(first), *axes).reshape(*table.shape[:first], observed, group.cells // observed)
