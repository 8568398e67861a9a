"""Tied tables: factors that share their parameters.

In: a graph and, for each group, which factors share a table. Out: log-potentials, one tensor a group. Stage: numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, Group, Integers


class TiedTables(nn.Module):
    r"""Log-potentials :math:`\eta_\alpha(x_\alpha)=\theta_{(c(\alpha),x_\alpha)}` with a class :math:`c` a factor.

    ``classes[group]`` is an integer array ``[factors]``: factors of one class share a table. A group that is not
    named has one table for all of its factors; ``np.arange(factors)`` leaves a group untied. Classes are numbered from
    0; a number that no factor has is an unused table. ``tables[group]``: ``[classes, *shape]``, zero unless given.

    ``forward()`` returns ``[1, *shape]`` for a group with one table, ``[factors, *shape]`` otherwise.

    >>> import numpy as np, loopwise as lw
    >>> across, down = np.zeros(6, int), np.ones(6, int)  # pairs along rows, then those down columns
    >>> potentials = TiedTables(lw.grid(3, 3), {"pair": np.concatenate([across, down])})
    >>> {name: tuple(table.shape) for name, table in potentials().items()}
    {'unary': (1, 2), 'pair': (12, 2, 2)}
    >>> [tuple(parameter.shape) for parameter in potentials.parameters()]
    [(1, 2), (2, 2, 2)]
    """

    def __init__(
        self,
        graph: FactorGraph,
        classes: Mapping[str, ArrayLike] | None = None,
        tables: Mapping[str, ArrayLike] | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.graph = graph
        for name in [*(classes or {}), *(tables or {})]:
            graph.group(name)  # refuses a name that the graph does not have
        kept = [_checked_classes(group, (classes or {}).get(group.name)) for group in graph.groups]
        self.tables = nn.ParameterList(
            [
                nn.Parameter(_checked_tables(group, own, (tables or {}).get(group.name), dtype))
                for group, own in zip(graph.groups, kept, strict=True)
            ]
        )
        for number, own in enumerate(kept):  # buffers move to a device with the module; the graph can make them again
            self.register_buffer(f"classes_{number}", torch.tensor(own), persistent=False)

    @classmethod
    def random(
        cls,
        graph: FactorGraph,
        classes: Mapping[str, ArrayLike] | None = None,
        *,
        seed: int,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float64,
    ) -> TiedTables:
        """Independent normal cells with standard deviation ``scale``."""
        generator = torch.Generator().manual_seed(seed)
        tied = cls(graph, classes, dtype=dtype)
        with torch.no_grad():
            for table in tied.tables:
                table.copy_(scale * torch.randn(table.shape, generator=generator, dtype=dtype))
        return tied

    def forward(self) -> dict[str, Tensor]:
        return {group.name: self._table(number) for number, group in enumerate(self.graph.groups)}

    def _table(self, number: int) -> Tensor:
        table: Tensor = self.tables[number]
        classes: Tensor = self.get_buffer(f"classes_{number}")
        return table if len(table) == 1 else table.index_select(0, classes)


def _checked_classes(group: Group, given: ArrayLike | None) -> Integers:
    if given is None:
        return np.zeros(group.count, dtype=np.int64)
    classes = np.asarray(given)
    if classes.shape != (group.count,):
        raise ValueError(
            f"classes of group {group.name!r} have shape {classes.shape}; give one for each of {group.count} factors"
        )
    if classes.size and not np.issubdtype(classes.dtype, np.integer):
        raise ValueError(f"classes of group {group.name!r} must be integers, not {classes.dtype}")
    if classes.size and classes.min() < 0:
        row = int(np.argmin(classes))
        raise ValueError(f"factor {row} of group {group.name!r} has class {classes[row]}; classes are numbered from 0")
    return classes.astype(np.int64)


def _checked_tables(group: Group, own: Integers, given: ArrayLike | None, dtype: torch.dtype) -> Tensor:
    classes = 1 + int(own.max(initial=0))
    if given is None:
        return torch.zeros(classes, *group.shape, dtype=dtype)
    table = torch.as_tensor(given).detach()
    if tuple(table.shape) == group.shape:
        table = table[None].expand(classes, *group.shape)
    if tuple(table.shape) != (classes, *group.shape):
        raise ValueError(
            f"tied tables of group {group.name!r} have shape {tuple(table.shape)}; "
            f"they must have {(classes, *group.shape)} (classes, then cardinalities)"
        )
    return table.to(dtype, copy=True).contiguous()
