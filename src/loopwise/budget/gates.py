r"""Factors that are there in part: :math:`p(x)\propto\prod_\alpha\psi_\alpha(x_\alpha)^{\tau(S_\alpha)}`.

In: a module of potentials. Out: :class:`Gated`, a module of potentials whose weak factors fade in training and are left
out in evaluation. Stage: budget (Eisner & Stoyanov 2011, section 3; cost-aware spec, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loopwise.budget.presence import PresenceStep, Published
from loopwise.budget.strength import Interaction, Strength
from loopwise.budget.unary_terms import add_terms, check_unaries
from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.learn.system import graph_of
from loopwise.loss.univariate import check_sharpness
from loopwise.potentials.template import Template

MEDIAN = 4.0  # the strength of the median factor, where the unit is taken from a model
STRONGEST, BISECTIONS = 10.0, 60  # at most so many times stronger, found to so many binary digits


class Faded(NamedTuple):
    """Tables as inference takes them, and how much of each factor is in them, ``[*batch, factors or 1]`` by group."""

    tables: dict[str, Tensor]
    present: dict[str, Tensor]


@dataclass(frozen=True)
class Gate:
    """How factors fade. ``groups``: those that may; by default all of arity 2 and more. Unary factors never do.

    ``unit``: the strength that counts as 1; published is 1, but what is weak depends on the data: :meth:`scaled_to`
    takes it from a trained model. A factor with hard zeros is infinitely strong: it is always there.
    """

    strength: Strength = field(default_factory=Interaction)
    step: PresenceStep = field(default_factory=Published)
    groups: tuple[str, ...] | None = None
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.unit < math.inf:
            raise ValueError(f"the unit of strength must be a positive number, not {self.unit}")

    def scaled_to(self, graph: FactorGraph, tables: Mapping[str, Tensor], median: float = MEDIAN) -> Gate:
        """The gate with the unit in which the median of these factors has strength ``median``.

        With 4 its presence is .88 at sharpness 1; factors a fifth as strong are pruned at once.
        """
        if not 0 < median < math.inf:
            raise ValueError(f"the strength of the median factor must be a positive number, not {median}")
        found = self.strengths(graph, tables).items()
        every = torch.cat([_expanded(values, graph.group(name)) for name, values in found])
        finite = every[torch.isfinite(every)]
        middle = float(finite.median()) if len(finite) else 0.0
        return self if middle <= 0 else replace(self, unit=middle / median)

    def gated_groups(self, graph: FactorGraph) -> list[Group]:
        """The groups of ``graph`` whose factors may fade."""
        if self.groups is None:
            return [group for group in graph.groups if group.arity >= 2]
        chosen = [graph.group(name) for name in self.groups]
        small = next((group for group in chosen if group.arity < 2), None)
        if small is not None:
            raise ValueError(f"group {small.name!r} has arity {small.arity}; only factors of 2 or more can be pruned")
        return chosen

    def strengths(self, graph: FactorGraph, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Strengths ``[*batch, factors or 1]`` by group, not in units; infinite where a table has hard zeros."""
        found = {}
        for group in self.gated_groups(graph):
            safe, barred = _without_zeros(tables[group.name], group.arity)
            found[group.name] = torch.where(barred, torch.inf, self.strength(safe, group.arity))
        return found

    def boosts(self, graph: FactorGraph, tables: Mapping[str, Tensor], sharpness: float = 1.0) -> dict[str, Tensor]:
        r"""By how much each factor must be made stronger for fading to leave it as it is, ``[factors or 1]`` by group:
        :math:`a` with :math:`a\,\tau(a^2S)=1`.

        A dense model behind gates is then the dense model still, while without that its factors begin as shares
        :math:`\tau(S)` of themselves. Strengths that depend on examples are averaged; factors too weak for any sensible
        :math:`a`, and those with hard zeros, have 1. By bisection, O(factors).
        """
        found = {}
        for name, strengths in self.strengths(graph, tables).items():
            each = strengths.detach().reshape(-1, strengths.shape[-1]).mean(0) / self.unit
            low, high = torch.ones_like(each), torch.full_like(each, STRONGEST)
            for _ in range(BISECTIONS):
                middle = (low * high).sqrt()
                enough = middle * self.step(middle.square() * each, sharpness) >= 1
                low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
            possible = torch.isfinite(each) & (STRONGEST * self.step(STRONGEST**2 * each, sharpness) >= 1)
            found[name] = torch.where(possible, high, 1.0)
        return found

    def fade(
        self,
        graph: FactorGraph,
        tables: Mapping[str, Tensor],
        sharpness: float,
        hard: bool = False,
        boosts: Mapping[str, Tensor] | None = None,
    ) -> Faded:
        r""":math:`\eta'=\tau(S)\,\iota` for tables :math:`\eta=\iota+\sum_i u_i`; the terms :math:`u_i` of single
        variables, which the strength does not count, are added to their unary factors.

        ``hard``: factors with :math:`\tau<\frac12` are 0, the others keep :math:`\tau(S)\,\iota`, and presences are 0
        or 1. ``boosts``: what :math:`\iota` is multiplied by first. O(cells).
        """
        faded, present, moved = dict(tables), {}, []
        for group in self.gated_groups(graph):
            table = tables[group.name]
            safe, barred = _without_zeros(table, group.arity)
            part, terms = self.strength.split(safe, group.arity)
            if boosts is not None:
                part = part * boosts[group.name].reshape(-1, *[1] * group.arity)
            tau = self.step(part.flatten(part.ndim - group.arity).square().sum(-1) / self.unit, sharpness)
            share = torch.where(tau < 0.5, 0.0, tau) if hard else tau
            whole = barred.reshape(*barred.shape, *[1] * group.arity)
            faded[group.name] = torch.where(whole, table, part * share.reshape(*share.shape, *[1] * group.arity))
            present[group.name] = torch.where(barred, 1.0, (tau >= 0.5).to(tau.dtype) if hard else tau)
            moved += [(group, axis, torch.where(barred[..., None], 0.0, term)) for axis, term in enumerate(terms)]
        return Faded(add_terms(graph, faded, moved) if moved else faded, present)


class Gated(nn.Module):
    r"""``potentials`` behind gates: :math:`\eta'_\alpha=\tau(S_\alpha)\,\eta_\alpha` while training, pruned in
    evaluation (``module.eval()``), where factors with :math:`\tau<\frac12` say nothing.

    To have the run really shortened, :func:`~loopwise.budget.prune` rebuilds the graph. ``sharpness``: of the step; a
    run of training sets it by its schedule. ``boosts``: of :meth:`Gate.boosts`, to begin with the model as it was.

    Gradients are those of the spec, section 3.2, with the price of presence included where a loss adds it.
    """

    sharpness: Tensor

    def __init__(
        self,
        potentials: nn.Module,
        gate: Gate | None = None,
        *,
        sharpness: float = 1.0,
        boosts: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(potentials, Template):
            raise ValueError(
                f"{type(potentials).__name__} is a template, whose examples have a graph each; use "
                "lw.budget.GatedTemplate"
            )
        self.graph = graph_of(potentials)
        self.potentials = potentials
        self.gate = Gate() if gate is None else gate
        if not self.gate.gated_groups(self.graph):
            raise ValueError(
                "the graph has no factor of two or more variables, so there is nothing to prune; use a graph with pairs"
            )
        if self.gate.strength.leaves_terms:
            check_unaries(self.graph, self.gate.gated_groups(self.graph))
        check_sharpness(sharpness)
        self.register_buffer("sharpness", torch.tensor(float(sharpness), dtype=torch.float64))
        self._boosted = boosts is not None
        if boosts is not None:  # by number: names of groups need not be names of buffers
            for number, group in enumerate(self.gate.gated_groups(self.graph)):
                self.register_buffer(f"boost{number}", boosts[group.name].clone())

    def forward(self, *inputs: Any, **named: Any) -> dict[str, Tensor]:
        return self.fade(*inputs, **named).tables

    def fade(self, *inputs: Any, **named: Any) -> Faded:
        """Tables and presences; hard in evaluation mode."""
        tables = self.potentials(*inputs, **named)
        return self.gate.fade(self.graph, tables, float(self.sharpness), not self.training, self.boosts)

    @property
    def boosts(self) -> dict[str, Tensor] | None:
        """What each factor is multiplied by before it fades, by group."""
        if not self._boosted:
            return None
        groups = self.gate.gated_groups(self.graph)
        return {group.name: self.get_buffer(f"boost{number}") for number, group in enumerate(groups)}

    def sharpen(self, sharpness: float) -> None:
        """Sets the sharpness of the step."""
        check_sharpness(sharpness)
        self.sharpness.fill_(sharpness)

    def extra_repr(self) -> str:
        return f"{self.gate}, sharpness={float(self.sharpness):g}"


def _expanded(strengths: Tensor, group: Group) -> Tensor:
    """One number a factor and example."""
    return strengths.detach().double().expand(*strengths.shape[:-1], group.count).reshape(-1)


def _without_zeros(table: Tensor, arity: int) -> tuple[Tensor, Tensor]:
    """The table with 0 for -inf, and which factors have such cells, ``[*batch, factors]``."""
    zero = torch.isneginf(table)
    return torch.where(zero, 0.0, table), zero.flatten(table.ndim - arity).any(-1)
