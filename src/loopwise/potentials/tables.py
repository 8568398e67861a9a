"""Free tables: every cell of every factor is its own parameter.

In: a graph. Out: log-potentials, one tensor a group. Stage: numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph
from loopwise.potentials.checks import checked_tables


class TablePotentials(nn.Module):
    r"""Log-potentials :math:`\eta_\alpha(x_\alpha) = \theta_{(\alpha, x_\alpha)}`, all zero unless given.

    ``forward()`` returns ``{group: [factors, *shape]}``. Parameters are kept under the group's number, since
    group names may hold characters that parameter names may not.

    Parameters
    ----------
    graph: whose groups are scored.
    tables: log-potentials of each group, ``[factors or 1, *shape]``; None: all zero.
    dtype: of the parameters.

    >>> import loopwise as lw
    >>> potentials = TablePotentials(lw.chain(3))
    >>> {name: tuple(table.shape) for name, table in potentials().items()}
    {'unary': (3, 2), 'pair': (2, 2, 2)}
    """

    def __init__(
        self,
        graph: FactorGraph,
        tables: Mapping[str, object] | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.graph = graph
        values: dict[str, Tensor]
        if tables is None:
            values = {group.name: torch.zeros(group.count, *group.shape, dtype=dtype) for group in graph.groups}
        else:
            given, batch = checked_tables(graph, tables)
            if batch:
                raise ValueError(
                    f"parameters have no batch dimensions, but the tables given have {tuple(batch)}; "
                    "give one table for each factor, not for each example"
                )
            values = {
                group.name: given[group.name].to(dtype).expand(group.count, *group.shape).clone()
                for group in graph.groups
            }
        self.tables = nn.ParameterList([nn.Parameter(values[group.name]) for group in graph.groups])

    @classmethod
    def random(
        cls, graph: FactorGraph, *, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float64
    ) -> TablePotentials:
        """Independent normal cells with standard deviation ``scale``."""
        generator = torch.Generator().manual_seed(seed)
        tables = {
            group.name: scale * torch.randn(group.count, *group.shape, generator=generator, dtype=dtype)
            for group in graph.groups
        }
        return cls(graph, tables, dtype=dtype)

    def forward(self) -> dict[str, Tensor]:
        return {group.name: table for group, table in zip(self.graph.groups, self.tables, strict=True)}
