r"""Constraints that read their variables one by one and remember little: parity, counts, logic.

In: log messages of binary variables. Out: what :class:`StructuredFactor` promises. Stage: structure. Such a factor is a
finite automaton: it starts in state 0, each variable moves it, and the state it ends in has a weight. Everything else
(messages, best assignments, samples, compiled kernels) follows from its table of transitions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import Integers
from loopwise.graph.structured.automaton_messages import AutomatonMessages
from loopwise.graph.structured.base import BinaryFactor
from loopwise.graph.structured.one_of import log_sum, with_largest_zero

FORBIDDEN = -1  # where a transition leads that no assignment may take


@dataclass(frozen=True, eq=False)
class Automaton(BinaryFactor):
    r"""A factor over ``variables`` binary variables that a finite automaton reads in order.

    With :math:`f_t(s)` the weight of all ways to be in state s before variable t, and :math:`b_t(s)` that of all ways
    to go on from there, the message to variable t is

    .. math:: m_t(v)\propto\sum_s f_t(s)\,b_{t+1}(\delta_t(s, v))

    in logarithms, sums of positive terms only: nothing cancels, however sure the messages are. O(variables x states).
    Subclasses give :attr:`transitions` and :attr:`accepted`, the log weights of the state at the end, or take those as
    potentials of their own (:attr:`potentials_shape`).
    """

    compiled = AutomatonMessages

    @property
    @abstractmethod
    def transitions(self) -> Integers:
        """The state after each variable, by the state before it and its value, ``[variables, states, 2]``; -1: none."""

    @property
    def accepted(self) -> np.ndarray | None:
        """Log weights of the states at the end, ``[states]``; None if they are the factor's potentials."""
        return None

    @property
    def states(self) -> int:
        return int(self.transitions.shape[1])

    def log_partition(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._from_the_right(incoming, potentials, log_sum, centred=False)[0][..., 0]

    def messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._messages(incoming, potentials, log_sum)

    def max_messages(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        return self._messages(incoming, potentials, _largest)

    def argmax(self, incoming: Tensor, potentials: Tensor | None = None) -> Tensor:
        after = self._from_the_right(incoming.detach(), _detached(potentials), _largest)
        return self._walked(incoming.detach(), after, lambda off, on: on > off)

    def sample(
        self, incoming: Tensor, potentials: Tensor | None = None, *, count: int, generator: np.random.Generator
    ) -> Tensor:
        after = self._from_the_right(incoming.detach(), _detached(potentials), log_sum)
        shape = (count, *after[0].shape[:-1])

        def chosen(off: Tensor, on: Tensor) -> Tensor:
            draws = torch.from_numpy(generator.random(shape)).to(on.device)
            return draws < torch.sigmoid((on - off).double())

        return self._walked(incoming.detach().expand(*shape, -1), [each.expand(*shape, -1) for each in after], chosen)

    def _messages(self, incoming: Tensor, potentials: Tensor | None, collect: Callable[[Tensor], Tensor]) -> Tensor:
        after = self._from_the_right(incoming, potentials, collect)
        self.refuse(torch.isneginf(after[0][..., 0]))
        before = self._from_the_left(incoming, after[0].shape[:-1], collect)
        places, _ = self._index(incoming)
        pieces = [
            collect((left[..., None] + _with_nothing(right)[..., place]).transpose(-1, -2))
            for left, right, place in zip(before, after[1:], places, strict=True)
        ]
        return self.normalised(torch.cat(pieces, -1))

    def _from_the_right(
        self,
        incoming: Tensor,
        potentials: Tensor | None,
        collect: Callable[[Tensor], Tensor],
        centred: bool = True,
    ) -> list[Tensor]:
        """Log weights of going on from each state before each variable, and at the end, ``[*batch, states]`` each."""
        nodes = self._nodes(incoming)
        final = self._final(incoming, potentials)
        after = [final + incoming.new_zeros(*incoming.shape[:-1], 1)]
        places, _ = self._index(incoming)
        for node, place in zip(nodes[::-1], places.flip(0), strict=True):
            value = collect(_with_nothing(after[-1])[..., place] + node[..., None, :])
            after.append(with_largest_zero(value) if centred else value)
        return after[::-1]

    def _from_the_left(self, incoming: Tensor, batch: torch.Size, collect: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Log weights of being in each state before each variable, up to a constant each."""
        start = incoming.new_full((self.states,), -torch.inf)
        start[0] = 0.0
        before = [start.expand(*batch, -1)]
        _, sources = self._index(incoming)
        for node, source in zip(self._nodes(incoming)[:-1], sources, strict=False):
            ways = (before[-1][..., None] + node[..., None, :]).flatten(-2)
            before.append(with_largest_zero(collect(_with_nothing(ways)[..., source])))
        return before

    def _walked(self, incoming: Tensor, after: list[Tensor], choose: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The assignment of ``choose(weight of OFF, weight of ON)`` at each variable in turn."""
        self.refuse(torch.isneginf(after[0][..., 0]))
        places, _ = self._index(incoming)
        state = torch.zeros(after[0].shape[:-1], dtype=torch.int64, device=incoming.device)
        values = []
        for node, right, place in zip(self._nodes(incoming), after[1:], places, strict=True):
            ways = place[state]  # [*batch, 2]
            weights = node.expand(ways.shape) + _with_nothing(right).gather(-1, ways)
            # A way that leads nowhere is never taken, whatever the comparison of two infinities says.
            on = (choose(weights[..., 0], weights[..., 1]) | torch.isneginf(weights[..., 0])) & ~torch.isneginf(
                weights[..., 1]
            )
            state = torch.where(on, ways[..., 1], ways[..., 0])
            values.append(on)
        return torch.stack(values, -1).to(torch.int64)

    def _nodes(self, incoming: Tensor) -> list[Tensor]:
        """Messages of each variable, ``[*batch, 2]``."""
        return list(incoming.reshape(*incoming.shape[:-1], self.variables, 2).unbind(-2))

    def _final(self, incoming: Tensor, potentials: Tensor | None) -> Tensor:
        if self.potentials_shape is None:
            return torch.tensor(self.accepted, dtype=incoming.dtype, device=incoming.device)
        if potentials is None:
            raise ValueError(
                f"{self.describe()} needs log-potentials of shape {self.potentials_shape}; "
                "give them, or leave the factor out"
            )
        return potentials.to(incoming)

    def _index(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Where transitions lead ``[variables, states, 2]`` and come from ``[variables, states, ways in]``; one past
        the last stands for nowhere."""
        places, sources = self._indices
        return torch.tensor(places, device=like.device), torch.tensor(sources, device=like.device)

    @cached_property
    def _indices(self) -> tuple[Integers, Integers]:
        table, states = self.transitions, self.states
        ways: list[list[list[int]]] = [[[] for _ in range(states)] for _ in table]
        for variable, state, value in np.argwhere(table != FORBIDDEN).tolist():
            ways[variable][table[variable, state, value]].append(2 * state + value)
        most = max(len(each) for row in ways for each in row)
        padded = [[each + [2 * states] * (most - len(each)) for each in row] for row in ways]
        return np.where(table == FORBIDDEN, states, table), np.array(padded, dtype=np.int64)


def literals(name: str, variables: int, negated: tuple[int, ...]) -> np.ndarray:
    """Whether the literal of each variable holds at each of its values, bool ``[variables, 2]``; ValueError for a
    negated variable that is not there."""
    for place in negated:
        if not 0 <= place < variables:
            raise ValueError(
                f"{name} over {variables} variables has no variable {place} to negate; count them from 0 in the order "
                "of the scope"
            )
    held = np.tile([False, True], (variables, 1))
    held[list(negated)] = [True, False]
    return held


def _largest(values: Tensor) -> Tensor:
    return values.amax(-1)


def _with_nothing(weights: Tensor) -> Tensor:
    """One more entry, of weight 0, that index ``states`` finds."""
    return torch.cat([weights, weights.new_full((*weights.shape[:-1], 1), -torch.inf)], -1)


def _detached(potentials: Tensor | None) -> Tensor | None:
    return None if potentials is None else potentials.detach()
