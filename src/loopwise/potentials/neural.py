"""Potentials from networks: any module that gives tables.

In: a graph, networks; then whatever the networks take. Out: checked log-potentials, one tensor a group. Stage: numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph
from loopwise.potentials.checks import checked_tables


class NeuralPotentials(nn.Module):
    r"""Log-potentials :math:`\eta_\alpha(x_\alpha)` = what a network says of the input.

    ``networks`` is one module that returns ``{group: [*batch, factors, *shape]}`` (or one tensor, where the graph has
    one group), or a mapping of group names to modules, each giving its group's tensor, and to tensors, which become
    parameters shared by all inputs (``[factors or 1, *shape]``). ``forward(*inputs)`` calls every network with the
    same ``inputs``. A table may lack the factor axis, or have 1 there: then it is tied over the group's factors.

    Parameters
    ----------
    graph: whose groups are scored.
    networks: one module for all groups, or for each group a module or a tensor.

    >>> import torch, loopwise as lw
    >>> net = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.Unflatten(-1, (4, 3)))  # 4 variables, 3 states
    >>> potentials = NeuralPotentials(lw.chain(4, states=3), {"unary": net, "pair": torch.zeros(3, 3)})
    >>> {name: tuple(table.shape) for name, table in potentials(torch.zeros(7, 5)).items()}
    {'unary': (7, 4, 3), 'pair': (1, 3, 3)}
    """

    def __init__(self, graph: FactorGraph, networks: nn.Module | Mapping[str, nn.Module | Tensor]) -> None:
        super().__init__()
        self.graph = graph
        self.whole: nn.Module | None = None
        self.parts = nn.ModuleList()
        self.parameter_tables = nn.ParameterList()
        # Group names may hold characters that module names may not: networks are kept by number.
        self._networks: dict[str, int] = {}
        self._tables: dict[str, int] = {}
        if isinstance(networks, nn.Module):
            self.whole = networks
            return
        for group in graph.groups:
            if group.name not in networks:
                raise ValueError(f"no network for group {group.name!r}; given are {list(networks)}")
        for name, network in networks.items():
            graph.group(name)  # refuses a name that the graph does not have
            if isinstance(network, nn.Module):
                self._networks[name] = len(self.parts)
                self.parts.append(network)
            elif isinstance(network, Tensor):
                self._tables[name] = len(self.parameter_tables)
                self.parameter_tables.append(nn.Parameter(network.detach().clone()))
            else:
                raise ValueError(f"group {name!r} needs a module or a tensor, not {type(network).__name__}")

    def forward(self, *inputs: Any, **named: Any) -> dict[str, Tensor]:
        tables, _ = checked_tables(self.graph, self._given(inputs, named))
        return tables

    def _given(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> Mapping[str, Any]:
        if self.whole is not None:
            found = self.whole(*inputs, **named)
            if isinstance(found, Tensor) and len(self.graph.groups) == 1:
                return {self.graph.groups[0].name: found}
            if not isinstance(found, Mapping):
                names = [group.name for group in self.graph.groups]
                raise ValueError(f"the network returned {type(found).__name__}; it must map {names} to tables")
            return found
        given: dict[str, Any] = {name: self.parts[number](*inputs, **named) for name, number in self._networks.items()}
        tables = {name: self.parameter_tables[number] for name, number in self._tables.items()}
        if given and tables:  # parameters follow the networks' precision, so that one dtype need not be said twice
            kind = next(iter(given.values()))
            if isinstance(kind, Tensor):
                tables = {name: table.to(kind.dtype) for name, table in tables.items()}
        return {**given, **tables}
