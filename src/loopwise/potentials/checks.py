"""Checking numbers against structure.

In: whatever the user calls log-potentials. Out: tensors of known shape. Stage: numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, Group


class Extent(NamedTuple):
    """The smallest and the largest number of a table; (0, 0) of an empty one."""

    low: float
    high: float

    @staticmethod
    def of(table: Tensor) -> Extent:
        """One pass finds NaN, too: extremes propagate it."""
        if table.numel() == 0:
            return Extent(0.0, 0.0)
        low, high = table.detach().aminmax()
        return Extent(low.item(), high.item())


def checked_tables(
    graph: FactorGraph, potentials: object, extents: dict[str, Extent] | None = None
) -> tuple[dict[str, Tensor], torch.Size]:
    """Log-potentials as tensors ``[*batch, factors, *shape]`` and their common batch shape.

    Accepts a mapping of group names to arrays, or a module whose ``forward()`` returns one. Batch dimensions
    broadcast between groups (a group without any is shared by all examples); a table without the factor axis,
    or with 1 there, is tied over the group's factors. Such axes come back with size 1 and are expanded by
    whoever needs to. All come back in one floating-point type (:func:`alike`). ``extents`` is filled with those of the
    tables: checks look at every number, once.
    """
    given = potentials() if isinstance(potentials, nn.Module) else potentials
    if not isinstance(given, Mapping):
        raise ValueError(
            "potentials must map group names to tables, or be a module that returns such a mapping, "
            f"not {type(given).__name__}"
        )
    if extents is None:
        extents = {}
    tables: dict[str, Tensor] = {}
    batches: dict[str, torch.Size] = {}
    for group in graph.groups:
        name = group.name
        if name not in given:
            raise ValueError(f"no potentials for group {name!r}; given are {list(given)}")
        table, extents[name] = _checked_table(group, given[name])
        tables[name] = table
        batches[name] = table.shape[: table.ndim - 1 - group.arity]
    if len(given) != len(tables):
        unknown = next(name for name in given if name not in tables)
        raise ValueError(f"potentials for unknown group {unknown!r}; the graph has {list(tables)}")
    tables, _ = alike(tables, {})
    try:
        return tables, broadcast_batches(*batches.values())
    except RuntimeError:
        listing = ", ".join(f"{name} {tuple(shape)}" for name, shape in batches.items())
        raise ValueError(f"batch dimensions of the groups do not broadcast: {listing}") from None


def broadcast_batches(*shapes: Sequence[int]) -> torch.Size:
    """The batch shape that all of ``shapes`` broadcast to; a RuntimeError where there is none."""
    # Asked at every call, of mostly equal shapes; torch's own function would load its tracer, half a second, first.
    distinct = {tuple(shape) for shape in shapes if len(shape)}
    if len(distinct) < 2:
        return torch.Size(distinct.pop() if distinct else ())
    sizes = [1] * max(len(shape) for shape in distinct)
    for shape in distinct:
        for place, size in enumerate(shape, len(sizes) - len(shape)):
            if sizes[place] == 1:
                sizes[place] = size
            elif size not in (1, sizes[place]):
                raise RuntimeError(f"shapes {', '.join(str(tuple(each)) for each in shapes)} do not broadcast")
    return torch.Size(sizes)


def _checked_table(group: Group, values: object) -> tuple[Tensor, Extent]:
    if isinstance(values, np.ndarray):
        values = values.copy()  # torch would share its memory, and could not tell when it is written to later
    if isinstance(values, Tensor) and values.is_inference():
        values = values.clone()  # the same: tensors of inference mode do not count what is written to them
    try:
        table = values if isinstance(values, Tensor) else torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as reason:
        raise ValueError(f"potentials of group {group.name!r} are no array of numbers: {reason}") from None
    if not table.is_floating_point():
        raise ValueError(f"potentials of group {group.name!r} must be floating point, not {table.dtype}")
    given = table.shape
    if table.ndim == group.arity:
        table = table[None]
    rows = table.shape[table.ndim - group.arity - 1] if table.ndim > group.arity else -1
    if rows == group.count == 0:  # no factor, so nothing that a cardinality could be wrong for
        table = table.reshape(*table.shape[: table.ndim - 1 - group.arity], 0, *group.shape)
    if table.shape[table.ndim - group.arity :] != group.shape or rows not in (1, group.count):
        raise ValueError(
            f"potentials of group {group.name!r} have shape {tuple(given)}; they must end in "
            f"{(group.count, *group.shape)} (factors, then cardinalities)"
        )
    extent = Extent.of(table) if group.count else Extent(0.0, 0.0)
    limit = LARGEST.get(table.dtype, math.inf)
    if not (extent.high < limit and extent.low > -limit):  # no comparison with NaN is true
        _check_values(group, table.detach(), limit)
    return table, extent


# Sums of a million potentials stay within the floating-point range.
LARGEST = {torch.float64: 1e302, torch.float32: 1e32}
NARROW = {torch.float16, torch.bfloat16}  # widened before anything is computed


def _check_values(group: Group, table: Tensor, limit: float) -> None:
    """Names the number that is none, if there is any."""
    wrong = ~(table < limit) | ((table < -limit) & ~torch.isneginf(table))
    if not bool(wrong.any()):
        return
    place = torch.nonzero(wrong)[0].tolist()
    batch, row, cell = _split_place(group, place)
    example = f" in example {batch[0] if len(batch) == 1 else tuple(batch)}" if batch else ""
    raise ValueError(
        f"log-potential of factor {row} of group {group.name!r} (variables "
        f"{group.scopes[row].tolist()}) at {cell}{example} is "
        f"{table[tuple(place)].item()}; it must be a number between {-limit:g} and {limit:g}, or -inf"
    )


def _split_place(group: Group, place: list[int]) -> tuple[list[int], int, list[int]]:
    """Example, factor and cell of an index into a table ``[*batch, factors, *shape]``."""
    axis = len(place) - group.arity - 1
    return place[:axis], place[axis], place[axis + 1 :]


Own = tuple[Tensor | None, ...]  # potentials of the structured factors of one name


def alike(tables: dict[str, Tensor], own: Mapping[str, Own]) -> tuple[dict[str, Tensor], dict[str, Own]]:
    """The same in one floating-point type that inference computes in: float64 where any is, else float32, to which
    float16 and bfloat16 (of ``torch.autocast``, say) are widened. All must be on one device."""
    given = [*tables.items(), *((name, value) for name, each in own.items() for value in each if value is not None)]
    kinds = {value.dtype for _, value in given}
    if len({value.device for _, value in given}) > 1:
        listing = ", ".join(f"{name} on {value.device}" for name, value in given)
        raise ValueError(f"potentials must be on one device: {listing}")
    if len(kinds) <= 1 and not kinds & NARROW:
        return tables, dict(own)
    wide = torch.float64 if torch.float64 in kinds else torch.float32
    return (
        {name: table.to(wide) for name, table in tables.items()},
        {name: tuple(None if value is None else value.to(wide) for value in each) for name, each in own.items()},
    )
