"""Flooding BP on pairwise graphs in plain torch, as fast as we could write it: the formulation to beat.

Probability domain, matrix products for the factors, batch innermost. For the variables two ways, of which a benchmark
takes the faster: gathering each variable's messages into a padded array and multiplying, or adding logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopwise.graph import FactorGraph


@dataclass
class TorchBP:
    """One pairwise graph with K states everywhere; ``padded``: multiply gathered messages, else add logarithms."""

    graph: FactorGraph
    padded: bool

    def __post_init__(self) -> None:
        layout = self.graph.layout
        self.edge_variable = torch.tensor(layout.edge_variable)  # [edges]; edge = 2 * factor + position
        width = int(layout.degrees.max())
        slots = np.full((self.graph.variables, width), layout.edges)  # the last row of messages is all ones
        column = np.arange(layout.edges) - layout.variable_edge_start[layout.edge_variable[layout.variable_edges]]
        slots[layout.edge_variable[layout.variable_edges], column] = layout.variable_edges
        self.incoming = torch.tensor(slots)

    def run(self, pair: Tensor, unary: Tensor, sweeps: int) -> Tensor:
        """Beliefs ``[variables, K, batch]`` of log tables ``[factors, K, K]`` and ``[variables, K, batch]``."""
        factors, states = pair.shape[0], pair.shape[1]
        table = torch.exp(pair - pair.amax((1, 2), keepdim=True))
        transposed = table.transpose(1, 2).contiguous()
        evidence = torch.exp(unary - unary.amax(1, keepdim=True))
        batch = unary.shape[-1]
        m = torch.full((2 * factors, states, batch), 1.0 / states, dtype=pair.dtype)
        for _ in range(sweeps):
            total = self._total(m, evidence)
            n = total[self.edge_variable] / m.clamp_min(1e-300)
            n = n / n.sum(1, keepdim=True)
            n = n.reshape(factors, 2, states, batch)
            m = torch.stack([torch.bmm(table, n[:, 1]), torch.bmm(transposed, n[:, 0])], 1)
            m = (m / m.sum(2, keepdim=True)).reshape(2 * factors, states, batch)
        total = self._total(m, evidence)
        return total / total.sum(1, keepdim=True)

    def _total(self, m: Tensor, evidence: Tensor) -> Tensor:
        if self.padded:
            with_one = torch.cat([m, m.new_ones(1, *m.shape[1:])])
            total = evidence * with_one[self.incoming].prod(1)
        else:
            logs = torch.log(m)
            total = torch.zeros_like(evidence).index_add(0, self.edge_variable, logs)
            total = evidence * torch.exp(total - total.amax(1, keepdim=True))
        return total / total.sum(1, keepdim=True)


class TorchTables:
    """Flooding BP on factors of one arity with K states everywhere, by contraction of one axis after another.

    Batches that share their tables stand innermost, so that a step is a matrix product; examples with tables of their
    own are a disjoint union of graphs.
    """

    def __init__(self, graph: FactorGraph, examples: int, own: bool, padded: bool) -> None:
        layout = graph.layout
        self.group, copies = layout.message_groups[0].group, examples if own else 1
        self.states, self.batch, self.padded = self.group.shape[0], 1 if own else examples, padded
        self.factors, self.variables = self.group.count * copies, graph.variables * copies
        edges, width = layout.edges, int(layout.degrees.max())
        slots = np.full((graph.variables, width), -1)
        column = np.arange(edges) - layout.variable_edge_start[layout.edge_variable[layout.variable_edges]]
        slots[layout.edge_variable[layout.variable_edges], column] = layout.variable_edges
        shifted = [np.where(slots < 0, edges * copies, slots + edges * copy) for copy in range(copies)]
        self.incoming = torch.tensor(np.concatenate(shifted))  # the last row of messages is all ones
        self.edge_variable = torch.tensor(
            np.concatenate([layout.edge_variable + graph.variables * copy for copy in range(copies)])
        )

    def run(self, tables: Tensor, unary: Tensor, sweeps: int) -> Tensor:
        """Beliefs ``[variables, K, batch]`` of log tables ``[factors, cells]`` and ``[variables, K, batch]``."""
        states, arity = self.states, self.group.arity
        table = torch.exp(tables).reshape(self.factors, -1, states)
        transposed = table.transpose(1, 2).contiguous()
        evidence = torch.exp(unary)
        m = torch.full((self.factors * arity, states, self.batch), 1.0 / states, dtype=table.dtype)
        for _ in range(sweeps):
            n = self._total(m, evidence)[self.edge_variable] / m.clamp_min(1e-300)
            n = (n / n.sum(1, keepdim=True)).reshape(self.factors, arity, states, self.batch)
            m = torch.stack(self._messages(table, transposed, list(n.unbind(1))), 1)
            m = (m / m.sum(2, keepdim=True)).reshape(self.factors * arity, states, self.batch)
        total = self._total(m, evidence)
        return total / total.sum(1, keepdim=True)

    def _messages(self, table: Tensor, transposed: Tensor, n: list[Tensor]) -> list[Tensor]:
        products = [n[0]]  # of the first one, two, ... messages, [factors, cells, batch]
        for message in n[1:-1]:
            products.append((products[-1][:, :, None] * message[:, None]).flatten(1, 2))
        found = [torch.bmm(transposed, products[-1])]
        rows = torch.bmm(table, n[-1])
        for position in range(len(n) - 2, 0, -1):
            cells = rows.reshape(len(rows), -1, self.states, self.batch)
            found.append((cells * products[position - 1][:, :, None]).sum(1))
            rows = (cells * n[position][:, None]).sum(2)
        return [rows, *reversed(found)]

    def _total(self, m: Tensor, evidence: Tensor) -> Tensor:
        if self.padded:
            total = evidence * torch.cat([m, m.new_ones(1, *m.shape[1:])])[self.incoming].prod(1)
        else:
            total = torch.zeros_like(evidence).index_add(0, self.edge_variable, torch.log(m))
            total = evidence * torch.exp(total - total.amax(1, keepdim=True))
        return total / total.sum(1, keepdim=True)
