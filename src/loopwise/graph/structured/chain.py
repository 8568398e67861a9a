r"""A chain of variables as one factor: exact messages along it, however many variables it spans.

In: log messages from its variables, a table for each step. Out: messages, log-partition, best path, samples. Stage:
structure. Beside other factors it turns a loopy graph of chains into one that is loopy only between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.arguments import checked_whole
from loopwise.graph.structured.base import StructuredFactor
from loopwise.graph.structured.chain_messages import ChainMessages
from loopwise.graph.structured.k_best import NONE, check_count
from loopwise.graph.structured.one_of import log_sum, with_largest_zero

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chain(StructuredFactor):
    r""":math:`\prod_{t=1}^{n-1} \psi_t(y_{t-1}, y_t)` over ``length`` variables of ``states`` values each.

    ``potentials``: log tables ``[*batch, length - 1, states, states]``, the earlier variable first. Messages are

    .. math:: m_t(k)\propto f_t(k)\,b_t(k),\quad f_t(k)=\sum_j f_{t-1}(j)\,n_{t-1}(j)\,\psi_t(j,k)

    (:math:`n` the incoming ones, :math:`b` likewise from the right), in logarithms: plain torch operations, any device,
    differentiable to any order. O(length x states^2), a loop over the length. Best paths and samples are compiled.

    Parameters
    ----------
    length: how many variables.
    states: values of each.

    >>> factor = Chain(3, 2)
    >>> steps = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]).expand(2, 2, 2)  # all alike
    >>> factor.log_partition(torch.zeros(6), steps).exp()
    tensor(2.)
    """

    compiled = ChainMessages

    length: int
    states: int

    def __post_init__(self) -> None:
        for name, number in {"length": self.length, "states": self.states}.items():
            checked_whole(f"the {name} of a Chain", number)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return (self.states,) * self.length

    @property
    def potentials_shape(self) -> tuple[int, ...]:
        return (self.length - 1, self.states, self.states)

    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        nodes, steps = self._apart(incoming, potentials)
        total = nodes[0]
        for node, step in zip(nodes[1:], steps, strict=True):
            total = log_sum((total[..., :, None] + step).transpose(-1, -2)) + node
        return log_sum(total)

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._messages(incoming, potentials, log_sum)

    def max_messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._messages(incoming, potentials, lambda values: values.amax(-1))

    def _messages(self, incoming: Tensor, potentials: Tensor | None, collect: Callable[[Tensor], Tensor]) -> Tensor:
        nodes, steps = self._apart(incoming, potentials)
        left, right = [torch.zeros_like(nodes[0])], [torch.zeros_like(nodes[0])]
        for node, step in zip(nodes[:-1], steps, strict=True):
            left.append(with_largest_zero(collect(((left[-1] + node)[..., :, None] + step).transpose(-1, -2))))
        for node, step in zip(nodes[:0:-1], steps[::-1], strict=True):
            right.append(with_largest_zero(collect(step + (right[-1] + node)[..., None, :])))
        both = [one + two for one, two in zip(left, right[::-1], strict=True)]
        self.refuse(torch.isneginf(log_sum(left[-1] + nodes[-1])))
        return self.normalised(torch.cat(both, -1))

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        from loopwise.graph.structured.kernels.chain_paths import best_paths

        unary, pair, start = self._flat(incoming, potentials)
        path, score = np.zeros(len(unary), dtype=np.int64), np.empty(len(start) - 1)
        best_paths(unary, pair, start, 0, len(score), path, score)
        self.refuse(torch.from_numpy(~(score > -np.inf)).reshape(incoming.shape[:-1]))
        return torch.from_numpy(path).reshape(*incoming.shape[:-1], self.length).to(incoming.device)

    def k_best(self, incoming: Tensor, potentials: Tensor | None = None, *, count: int) -> tuple[Tensor, Tensor]:
        """By keeping the best ``count`` paths to each value of each variable, O(length x states^2 x count)."""
        check_count(count)
        nodes, steps = self._apart(incoming.detach(), None if potentials is None else potentials.detach())
        batch, states = incoming.shape[:-1], self.states
        best, back = nodes[0][..., None], []  # [*batch, states, paths]
        for node, step in zip(nodes[1:], steps, strict=True):
            longer = best[..., :, None, :] + step[..., :, :, None]  # [*batch, from, to, paths]
            longer = longer.transpose(-3, -2).flatten(-2)  # [*batch, to, from x paths]
            kept = min(count, longer.shape[-1])
            top, chosen = longer.expand(*batch, states, longer.shape[-1]).topk(kept, -1)
            back.append((chosen // best.shape[-1], chosen % best.shape[-1]))
            best = top + node[..., None]
        paths = best.shape[-1]
        scores, chosen = best.flatten(-2).topk(min(count, states * paths), -1)
        self.refuse(torch.isneginf(scores[..., 0]))
        state, rank = chosen // paths, chosen % paths  # [*batch, found]
        values = [state]
        for before, ranked in reversed(back):
            flat = state * before.shape[-1] + rank
            state, rank = (table.flatten(-2).gather(-1, flat) for table in (before, ranked))
            values.append(state)
        found = torch.stack(values[::-1], -1).masked_fill(torch.isneginf(scores)[..., None], NONE)
        return _padded(found, NONE, count, -2).movedim(-2, 0), _padded(scores, -torch.inf, count, -1).movedim(-1, 0)

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        from loopwise.graph.structured.kernels.chain import marginals
        from loopwise.graph.structured.kernels.chain_paths import sample_paths

        unary, pair, start = self._flat(incoming, potentials)
        chains = len(start) - 1
        single, double, total = np.empty(unary.shape), np.zeros((len(unary), *pair.shape[1:])), np.empty(chains)
        marginals(unary, pair, start, 0, chains, single, double, total)
        self.refuse(torch.from_numpy(~(total > -np.inf)).reshape(incoming.shape[:-1]))
        paths = np.zeros((count, len(unary)), dtype=np.int64)
        for path in paths:
            sample_paths(start, 0, chains, single, double, generator.random(len(unary)), path)
        return torch.from_numpy(paths).reshape(count, *incoming.shape[:-1], self.length).to(incoming.device)

    def _apart(self, incoming: Tensor, potentials: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
        """Messages of each variable ``[*batch, states]``, and the table of each step."""
        nodes = incoming.reshape(*incoming.shape[:-1], self.length, self.states).unbind(-2)
        return list(nodes), list(self._tables(incoming, potentials).unbind(-3))

    def _tables(self, incoming: Tensor, potentials: Tensor | None) -> Tensor:
        if potentials is None:
            raise ValueError(
                f"{self.describe()} needs log-potentials of shape {self.potentials_shape}; "
                "give them, or leave the factor out"
            )
        return potentials.to(incoming)

    def _flat(self, incoming: Tensor, potentials: Tensor | None) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """The chains of a batch one after another, as kernels want them: a table a variable, the first unused."""
        steps = self._tables(incoming, potentials).expand(*incoming.shape[:-1], *self.potentials_shape)
        padded = torch.cat([steps.new_zeros(*incoming.shape[:-1], 1, self.states, self.states), steps], -3)
        unary = incoming.detach().to("cpu", torch.float64).reshape(-1, self.states).contiguous().numpy()
        pair = padded.detach().to("cpu", torch.float64).reshape(-1, self.states, self.states).contiguous().numpy()
        return unary, pair, np.arange(len(unary) // self.length + 1) * self.length


def _padded(values: Tensor, filler: float, count: int, axis: int) -> Tensor:
    """As many as were asked for, where there are not so many."""
    shape = list(values.shape)
    shape[axis] = count - values.shape[axis]
    return torch.cat([values, values.new_full(shape, filler)], axis)
