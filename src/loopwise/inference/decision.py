"""What decoders give and losses take: a distribution over the values of each variable.

In: the distributions a decoder chose, soft or one-hot. Out: :class:`Decision`, read like :class:`Beliefs`. Stage:
inference (the last thing below both decoders and losses, which do not know each other).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph, variable_range
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.by_variable import point_masses, reduce_variables


class Distributions(Protocol):
    """What a loss reads: beliefs and decisions both have it."""

    @property
    def graph(self) -> FactorGraph: ...

    @property
    def states(self) -> Tensor:
        """``[*batch, states]``."""
        ...

    def factor(self, name: str) -> Tensor:
        """``[*batch, factors, *shape]``."""
        ...


class Decision:
    """Distributions over the values of each variable (and of each factor's cells, where asked for).

    ``states`` is ``[*batch, states]``, all variables one after another; ``hard`` says that every distribution is
    one-hot; ``beliefs`` are those that were decoded.
    """

    def __init__(
        self,
        beliefs: Beliefs,
        states: Tensor,
        factors: Callable[[str], Tensor],
        *,
        hard: bool = False,
    ) -> None:
        self.beliefs = beliefs
        self.graph: FactorGraph = beliefs.graph
        self.states = states
        self.hard = hard
        self._factor_source = factors
        self._factors: dict[str, Tensor] = {}

    @classmethod
    def of_assignment(cls, beliefs: Beliefs, values: Tensor) -> Decision:
        """The hard decision for ``values`` ``[*batch, variables]``; each factor gets the cell that they choose."""
        graph = beliefs.graph
        states = point_masses(graph, values, beliefs.states)
        return cls(beliefs, states, lambda name: cell_masses(graph, name, values, states), hard=True)

    def __repr__(self) -> str:
        return f"Decision({self.graph!r}; {'hard' if self.hard else 'soft'}, batch {tuple(self.batch_shape)})"

    @property
    def batch_shape(self) -> torch.Size:
        return self.states.shape[:-1]

    def marginal(self, variable: int) -> Tensor:
        """The distribution of one variable, ``[*batch, cardinality]``."""
        if not 0 <= variable < self.graph.variables:
            raise ValueError(f"no variable {variable}; {variable_range(self.graph.variables)}")
        start = self.graph.layout.state_start
        return self.states[..., start[variable] : start[variable + 1]]

    def factor(self, name: str) -> Tensor:
        """The decisions on the factors of group ``name``, ``[*batch, factors, *shape]``."""
        if name not in self._factors:
            self.graph.group(name)  # raises for an unknown name
            self._factors[name] = self._factor_source(name)
        return self._factors[name]

    @cached_property
    def assignment(self) -> Tensor:
        """The value with most mass of each variable, int64 ``[*batch, variables]``."""
        return reduce_variables(self.graph, lambda block: block.argmax(-1), self.states.detach()).to(torch.int64)


def cell_masses(graph: FactorGraph, name: str, values: Tensor, like: Tensor) -> Tensor:
    """One-hot tables ``[*batch, factors, *shape]`` at the cells that ``values`` ``[*batch, variables]`` choose."""
    group = graph.group(name)
    cell = torch.zeros(*values.shape[:-1], group.count, dtype=torch.int64, device=like.device)
    for axis, size in enumerate(group.shape):
        member = torch.tensor(group.scopes[:, axis], device=like.device)
        cell = cell * size + values.to(like.device).index_select(-1, member)
    flat = torch.zeros(*cell.shape, group.cells, dtype=like.dtype, device=like.device)
    return flat.scatter_(-1, cell[..., None], 1.0).reshape(*cell.shape, *group.shape)
