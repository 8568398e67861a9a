"""Structured factors in an inference call: their own potentials, and tables in their place where a method needs them.

In: a graph with structured factors and what the user calls potentials. Out: checked potentials; or the same model with
every structured factor written out as a table, if that is small. Stage: inference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, StructuredGroup
from loopwise.graph.structured.base import StructuredFactor
from loopwise.potentials.checks import Own

LARGEST_TABLE = 2**16  # cells of a structured factor that may be written out (16 binary variables)


def split_potentials(graph: FactorGraph, potentials: object) -> tuple[object, dict[str, Own]]:
    """What is left for the tables, and the potentials of structured factors by name.

    Those of factors without any are None. For a name of several factors: one tensor for all of them, or a list of one
    each; ``[*b, *potentials_shape]``."""
    if not graph.structured:
        return potentials, {}
    given = potentials() if isinstance(potentials, nn.Module) else potentials
    if not isinstance(given, Mapping):
        return given, {}  # the check of tables says what is wrong with it
    own: dict[str, Own] = {}
    for group in graph.structured:
        if not group.weighted:
            own[group.name] = (None,) * group.count
            if group.name in given:
                raise ValueError(
                    f"the structured factors {group.name!r} ({group.kinds()}) take no potentials; leave them out"
                )
            continue
        if group.name not in given:
            raise ValueError(f"no potentials for the structured factors {group.name!r}; given are {list(given)}")
        own[group.name] = _checked(group, given[group.name])
    return {name: table for name, table in given.items() if graph.structured_group(name) is None}, own


def _checked(group: StructuredGroup, values: object) -> Own:
    each = list(values) if isinstance(values, list | tuple) else [values] * group.count
    if len(each) != group.count:
        raise ValueError(
            f"{len(each)} tensors of potentials for the {group.count} structured factors {group.name!r}; "
            "give one for each"
        )
    found: list[Tensor | None] = []
    for row, (factor, value) in enumerate(zip(group.factors, each, strict=True)):
        if isinstance(value, Tensor) and value.is_inference():
            value = value.clone()  # such tensors do not count what is written to them later
        shape = factor.potentials_shape
        if shape is None:
            found.append(None)
            continue
        tensor = torch.as_tensor(value)
        if not tensor.is_floating_point() or tuple(tensor.shape[tensor.ndim - len(shape) :]) != shape:
            raise ValueError(
                f"potentials of structured factor {row} of {group.name!r} are {tensor.dtype} {tuple(tensor.shape)}; "
                f"they must be floating point and end in {shape}"
            )
        if not bool((tensor.detach() < torch.inf).all()):
            raise ValueError(
                f"potentials of structured factor {row} of {group.name!r} hold NaN or +inf; "
                "they must be numbers or -inf"
            )
        found.append(tensor)
    return tuple(found)


def own_batches(graph: FactorGraph, own: Mapping[str, Own]) -> list[torch.Size]:
    """Batch dimensions of the potentials of structured factors."""
    found = []
    for group in graph.structured:
        for factor, tensor in zip(group.factors, own[group.name], strict=True):
            if tensor is not None and factor.potentials_shape is not None:
                found.append(tensor.shape[: tensor.ndim - len(factor.potentials_shape)])
    return found


def to_table_factors(
    graph: FactorGraph, tables: Mapping[str, Tensor], own: Mapping[str, Own], like: Tensor
) -> tuple[FactorGraph, dict[str, Tensor]]:
    """The same model with tables only; ValueError where a structured factor is too large to be one."""
    scopes: dict[str, np.ndarray] = {group.name: group.scopes for group in graph.groups}
    values = dict(tables)
    for group in graph.structured:
        for row, (factor, scope) in enumerate(zip(group.factors, group.scopes, strict=True)):
            cells = math.prod(factor.cardinalities)
            if cells > LARGEST_TABLE:
                raise ValueError(
                    f"the structured factor {group.name!r} ({type(factor).__name__} over {factor.arity} variables) "
                    f"would be a table of {cells:.3g} cells, too large for this method; use BP() or TRW(), which take "
                    "it as it is"
                )
            name = f"{group.name}[{row}]"
            while name in scopes:
                name += "'"
            scopes[name] = scope[None]
            table = dense_table(factor, own[group.name][row]).to(like)
            values[name] = table.reshape(*table.shape[:-1], 1, *factor.cardinalities)
    return FactorGraph(graph.cardinalities, scopes), values


def dense_table(factor: StructuredFactor, potentials: Tensor | None = None) -> Tensor:
    """The factor at every assignment, last variable fastest, ``[*b, cells]``: its dense twin."""
    everything = np.indices(factor.cardinalities).reshape(factor.arity, -1).T
    assignments = torch.tensor(np.ascontiguousarray(everything))
    if potentials is None:
        return factor.score(assignments)
    shape: Sequence[int] = factor.potentials_shape or ()
    spread = potentials.reshape(*potentials.shape[: potentials.ndim - len(shape)], 1, *shape)
    batch = spread.shape[: spread.ndim - len(shape) - 1]
    return factor.score(assignments.to(potentials.device).expand(*batch, *assignments.shape), spread)
