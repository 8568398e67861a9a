r"""What a run of message passing costs: a price for each factor and sweep, added up.

In: a graph, how much of each factor is there, which variables are observed. Out: numbers, differentiable in the
presence of factors. Stage: budget (cost-aware spec, section 1).

.. math::
    t_{run} = \sum_t\Big(c + \sum_\alpha\tau_\alpha\,\kappa_\alpha\Big) + c_0 + s\sum_{\alpha\text{ cut}}\tau_\alpha

(a factor is cut that has observed variables: their values are sliced out of its table before the first sweep).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import FREE, EvidenceLike, clamped_values
from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.graph.parts import Parts
from loopwise.inference.beliefs import Beliefs
from loopwise.potentials.checks import broadcast_batches

Floats = NDArray[np.float64]
Presence = Mapping[str, Tensor]  # how much of each factor is there, [*batch, factors or 1] by group


@dataclass(frozen=True)
class Cost(ABC):
    r"""Prices :math:`\kappa_\alpha` of factors; those of arity 0 and 1 are folded away and cost nothing.

    ``sliced``: observed variables are sliced out of their factors first, as inference here does, so that no message to
    them is paid for. Without it every factor counts in full, as in Eisner & Stoyanov (2011).
    """

    sliced: bool = True
    unit: ClassVar[str] = ""

    @abstractmethod
    def factor(self, messages: Floats, cells: Floats) -> Floats:
        """The price in one sweep of factors that send so many messages and whose messages visit so many cells."""

    @property
    def each_sweep(self) -> float:
        """The price of a sweep, whatever the factors."""
        return 0.0

    @property
    def each_run(self) -> float:
        """The price of an example, whatever the sweeps."""
        return 0.0

    @property
    def each_slice(self) -> float:
        """The price of slicing observed values out of a factor's table, in an example."""
        return 0.0

    def factors(self, graph: FactorGraph, observed: NDArray[np.bool_] | None = None) -> dict[str, Floats]:
        """The price of each factor in one sweep, ``[factors]`` by group. ``observed``: bool ``[variables]``. Structured
        factors, which keep observed variables, send a message to each of theirs, and visit each value of it."""
        hidden = np.zeros(graph.variables, dtype=bool) if observed is None or not self.sliced else observed
        found = {group.name: self.factor(*_sizes(group, hidden)) for group in graph.groups}
        for named in graph.structured:
            sizes = [(factor.arity, factor.slots) for factor in named.factors]
            found[named.name] = self.factor(*np.array(sizes, dtype=np.float64).T)
        return found

    def sweep(
        self, graph: FactorGraph, present: Presence | None = None, observed: NDArray[np.bool_] | None = None
    ) -> Tensor:
        r"""The price of one sweep of one example, :math:`c+\sum_\alpha\tau_\alpha\kappa_\alpha`.

        A scalar, or ``[*batch]`` where presences have a batch; of a union of examples one for each, ``[examples]``.
        Groups without a presence are wholly there. O(factors).
        """
        return self.each_sweep + _added(graph, self.factors(graph, observed), present)

    def slicing(
        self, graph: FactorGraph, present: Presence | None = None, observed: NDArray[np.bool_] | None = None
    ) -> Tensor:
        """The price of slicing in one example: of its factors of two variables or more with one that is observed."""
        hidden = np.zeros(graph.variables, dtype=bool) if observed is None or not self.sliced else observed
        cut = {
            group.name: np.where(hidden[group.scopes].any(axis=1), self.each_slice, 0.0)
            for group in graph.groups
            if group.arity >= 2
        }
        return _added(graph, cut, present)

    def run(
        self,
        graph: FactorGraph,
        sweeps: Tensor | float,
        present: Presence | None = None,
        observed: NDArray[np.bool_] | None = None,
    ) -> Tensor:
        """The price of runs of so many ``sweeps`` ``[*batch]``."""
        once = self.each_run + (self.slicing(graph, present, observed) if self.each_slice else 0.0)
        return self.sweep(graph, present, observed) * sweeps + once

    def messages(self, graph: FactorGraph, observed: NDArray[np.bool_] | None = None) -> Floats:
        """The price of each message in a sweep, ``[edges]``: an equal share of its factor's; 0 to what is observed."""
        layout = graph.layout
        hidden = np.zeros(graph.variables, dtype=bool) if observed is None or not self.sliced else observed
        prices = self.factors(graph, observed)
        each = [np.asarray(prices[name], dtype=np.float64) for name in dict(layout.named_factors)]
        free = ~hidden[layout.edge_variable]
        sharing = np.bincount(layout.edge_factor, free, minlength=layout.message_factors)
        shares = np.concatenate([np.zeros(0), *each]) / np.maximum(sharing, 1)
        found: Floats = np.where(free, shares[layout.edge_factor], 0.0)
        return found

    def run_of_messages(
        self,
        graph: FactorGraph,
        made: Tensor,
        sent: Tensor,
        present: Presence | None = None,
        observed: NDArray[np.bool_] | None = None,
    ) -> Tensor:
        r"""The price of runs in which not every message is sent in every sweep, ``[*batch]``.

        ``made``: with which probability each sweep is made, ``[sweeps, *batch]``. ``sent``: how far each message is
        sent in it, ``[sweeps, edges]``. ``present``: how much of each factor is there, as for :meth:`sweep`.

        .. math:: \sum_t P_t\Big(c+\sum_e a_e^t\,\tau_{\alpha(e)}\,\kappa_e\Big) + c_0 + \ldots
        """
        prices = torch.from_numpy(self.messages(graph, observed)).to(sent)
        there = _by_edge(graph, present, sent)
        each = (sent * prices) @ there[..., None] if there.ndim == 1 else there @ (sent * prices).T
        of_sweep = each[:, 0] if there.ndim == 1 else each.movedim(-1, 0)  # [sweeps] or [sweeps, *batch]
        of_sweep = of_sweep.reshape(len(sent), *[1] * (made.ndim - of_sweep.ndim), *of_sweep.shape[1:])
        once = self.each_run + (self.slicing(graph, present, observed) if self.each_slice else 0.0)
        return (made * (self.each_sweep + of_sweep)).sum(0) + once

    def of(self, beliefs: Beliefs, evidence: EvidenceLike = None) -> Tensor:
        """What each example of these beliefs cost, ``[*batch]``: its own sweeps, on the graph that was run.

        ``evidence``: what inference was given; variables observed in all of its examples were sliced away.
        """
        observed = always_observed(beliefs.graph, evidence)
        return self.run(beliefs.graph, beliefs.status.sweeps.to(torch.float64), None, observed)


@dataclass(frozen=True)
class FactorCost(Cost):
    r""":math:`\kappa_\alpha=1`: the run time of Eisner & Stoyanov (2011), section 3."""

    unit: ClassVar[str] = "factors"

    def factor(self, messages: Floats, cells: Floats) -> Floats:
        return (messages > 0).astype(np.float64)


@dataclass(frozen=True)
class MessageCost(Cost):
    r""":math:`\kappa_\alpha=|\alpha|`: messages from factors to variables, what a flooding sweep sends.

    >>> import loopwise as lw
    >>> [float(MessageCost(sliced).sweep(lw.chain(4), observed=np.array([True, False, False, False])))
    ...  for sliced in (True, False)]
    [4.0, 6.0]
    """

    unit: ClassVar[str] = "messages"

    def factor(self, messages: Floats, cells: Floats) -> Floats:
        return messages


@dataclass(frozen=True)
class CellCost(Cost):
    r""":math:`\kappa_\alpha=|\alpha|\prod_{j\in\alpha}K_j`: table cells read, for factors of mixed sizes."""

    unit: ClassVar[str] = "cells"

    def factor(self, messages: Floats, cells: Floats) -> Floats:
        return cells


@dataclass(frozen=True)
class SweepCost(Cost):
    """One a sweep, whatever the factors."""

    unit: ClassVar[str] = "sweeps"

    def factor(self, messages: Floats, cells: Floats) -> Floats:
        return np.zeros_like(messages)

    @property
    def each_sweep(self) -> float:
        return 1.0


def always_observed(graph: FactorGraph, evidence: EvidenceLike) -> NDArray[np.bool_]:
    """The variables that are observed in every example, bool ``[variables]``: those that inference slices away."""
    seen = clamped_values(graph, evidence).reshape(-1, graph.variables) != FREE
    found: NDArray[np.bool_] = seen.all(axis=0) if len(seen) else np.zeros(graph.variables, dtype=bool)
    return found


def _added(graph: FactorGraph, prices: Mapping[str, Floats], present: Presence | None) -> Tensor:
    """The prices of factors, by group, as far as they are there; of a union by part."""
    parts = None if graph.part_start is None else Parts.of(graph)
    total = torch.zeros(() if parts is None else (parts.count,), dtype=torch.float64)
    for name, each in prices.items():
        kappa = torch.from_numpy(each)
        if present is not None and name in present:
            share = present[name]
            kappa = share.expand(*share.shape[:-1], len(kappa)) * kappa.to(share)
        if parts is None:
            total = total + kappa.sum(-1)
        elif len(each) and not _is_constant(graph, name):  # constants cost nothing
            owner = torch.from_numpy(parts.of_factors(name)).to(kappa.device)
            total = total + kappa.new_zeros(*kappa.shape[:-1], parts.count).index_add(-1, owner, kappa)
    return total


def _by_edge(graph: FactorGraph, present: Presence | None, like: Tensor) -> Tensor:
    """How much of each edge's factor is there, ``[*batch, edges]``."""
    layout, pieces = graph.layout, []
    for name, count in layout.named_factors:
        share = None if present is None else present.get(name)
        wide = like.new_ones(count) if share is None else share.to(like).expand(*share.shape[:-1], count)
        pieces.append(wide)
    batch = broadcast_batches(*(piece.shape[:-1] for piece in pieces)) if pieces else torch.Size()
    rows = [piece.expand(*batch, -1) for piece in pieces] or [like.new_ones(0)]
    return torch.cat(rows, -1)[..., torch.from_numpy(layout.edge_factor).to(like.device)]


def _is_constant(graph: FactorGraph, name: str) -> bool:
    return graph.structured_group(name) is None and graph.group(name).arity == 0


def _sizes(group: Group, observed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Messages that each factor sends in a sweep, and the table cells that these visit, ``[factors]``."""
    free = ~observed[group.scopes]  # [factors, arity]
    arity = free.sum(axis=1).astype(np.float64)
    cells = np.where(free, np.asarray(group.shape, dtype=np.float64), 1.0).prod(axis=1)
    sends = arity >= 2
    return np.where(sends, arity, 0.0), np.where(sends, arity * cells, 0.0)
