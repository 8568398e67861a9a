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
