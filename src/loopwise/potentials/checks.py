"""Checking numbers against structure. In: whatever the user calls log-potentials. Out: tensors of known shape."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, Group


def checked_tables(graph: FactorGraph, potentials: object) -> tuple[dict[str, Tensor], torch.Size]:
    """Log-potentials as tensors ``[*batch, factors, *shape]`` and their common batch shape.

    Accepts a mapping of group names to arrays, or a module whose ``forward()`` returns one. Batch dimensions
    broadcast between groups (a group without any is shared by all examples); a table without the factor axis, or
    with 1 there, is tied over the group's factors. Such axes come back with size 1 and are expanded by whoever
    needs to.
    """
    given = potentials() if isinstance(potentials, nn.Module) else potentials
    if not isinstance(given, Mapping):
        raise ValueError(
            f"potentials must map group names to tables, or be a module that returns such a mapping; got {type(given)}"
        )
    names = [group.name for group in graph.groups]
    for name in names:
        if name not in given:
            raise ValueError(f"no potentials for group {name!r}; given are {list(given)}")
    for name in given:
        if name not in names:
            raise ValueError(f"potentials for unknown group {name!r}; the graph has {names}")
    tables = {group.name: _checked_table(group, given[group.name]) for group in graph.groups}
    _check_alike(tables)
    batches = [table.shape[: table.ndim - 1 - group.arity] for group, table in zip(graph.groups, tables.values(), strict=True)]
    try:
        batch = torch.broadcast_shapes(*batches) if batches else torch.Size()
    except RuntimeError:
        listing = ", ".join(f"{name} {tuple(shape)}" for name, shape in zip(names, batches, strict=True))
        raise ValueError(f"batch dimensions of the groups do not broadcast: {listing}") from None
    return tables, batch


def _checked_table(group: Group, values: object) -> Tensor:
    table = torch.as_tensor(values)
    if not table.is_floating_point():
        raise ValueError(f"potentials of group {group.name!r} must be floating point, not {table.dtype}")
    if table.ndim == group.arity:
        table = table[None]
    rows = table.shape[table.ndim - group.arity - 1] if table.ndim > group.arity else -1
    shape = tuple(table.shape[table.ndim - group.arity :])
    if shape != group.shape or rows not in (1, group.count):
        raise ValueError(
            f"potentials of group {group.name!r} have shape {tuple(table.shape)}; they must end in "
            f"{(group.count, *group.shape)} (factors, then cardinalities)"
        )
    _check_values(group, table)
    return table


def _check_values(group: Group, table: Tensor) -> None:
    with torch.no_grad():
        # One pass finds both NaN and +inf: a maximum propagates NaN, and NaN < inf is false.
        if table.numel() == 0 or bool(table.detach().max() < torch.inf):
            return
        place = torch.nonzero(~(table < torch.inf))[0].tolist()
        cell = place[table.ndim - group.arity :]
        row = place[table.ndim - group.arity - 1]
        scope = group.scopes[row].tolist()
        raise ValueError(
            f"log-potential of factor {row} of group {group.name!r} (variables {scope}) at {cell} is "
            f"{table[tuple(place)].item()}; it must be a number or -inf"
        )


def _check_alike(tables: Mapping[str, Tensor]) -> None:
    kinds = {(table.dtype, table.device) for table in tables.values()}
    if len(kinds) > 1:
        listing = ", ".join(f"{name} {table.dtype} on {table.device}" for name, table in tables.items())
        raise ValueError(f"potentials must share one dtype and device: {listing}")
