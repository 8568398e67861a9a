"""What losses and metrics share, and the two families most losses belong to.

In: a decision or beliefs, and targets. Out: a number. Stage: loss. A measure first gives *statistics*, a row an
example, and then a value of them; so a corpus can go by in pieces, and micro and macro averages are one choice
(:mod:`~loopwise.loss.reduction`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.inference.by_variable import reduce_variables
from loopwise.inference.decision import Distributions
from loopwise.inference.rows import whole_of
from loopwise.loss.reduction import Each, Mean, Reduction
from loopwise.loss.targets import Targets, TargetsLike, whole_targets
from loopwise.potentials.checks import broadcast_batches


@dataclass(frozen=True, eq=False, kw_only=True)
class Measure(ABC):
    """A number that says how good a prediction is. ``reduction``: how examples are combined."""

    higher_is_better: ClassVar[bool] = False

    reduction: Reduction = field(default_factory=Mean)

    @property
    @abstractmethod
    def columns(self) -> int:
        """How many statistics an example has."""

    @abstractmethod
    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        """``[*batch, columns]``; the first is the weight of what was scored, and all may be added over examples."""

    @abstractmethod
    def value(self, statistics: Tensor) -> Tensor:
        """The measure of each row of statistics, ``[*batch]``."""

    def combine(self, statistics: Tensor) -> Tensor:
        """The number for statistics ``[*batch, columns]`` of any number of batches."""
        return self.reduction(self, statistics)

    def per_example(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        """The measure of each example, ``[*batch]``, 0 where nothing is scored."""
        return Each()(self, self.statistics(prediction, targets))

    def __call__(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        """The number: a scalar, unless ``reduction`` is :class:`~loopwise.loss.reduction.Each`.

        ``prediction``: a decision or beliefs. ``targets``: integers ``[*batch, variables]`` with -1 where a variable is
        not scored, an :class:`~loopwise.Evidence` (its outputs), sets, or :class:`~loopwise.loss.targets.Targets`.
        Batch dimensions of the two broadcast.
        """
        return self.combine(self.statistics(prediction, targets))


class Loss(Measure):
    """A measure to be minimised, differentiable in the prediction."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Averaged(Loss):
    """A loss that is a weighted average over the scored pieces of an example (variables or factors).

    ``normalise=False`` gives the sum instead, as Domke (2010) writes his losses.
    """

    normalise: bool = True

    @property
    def columns(self) -> int:
        return 2

    def value(self, statistics: Tensor) -> Tensor:
        weight, total = statistics[..., 0], statistics[..., 1]
        return total / torch.where(weight > 0, weight, 1.0) if self.normalise else total

    @abstractmethod
    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        """The loss of distributions ``[..., K]`` when the values ``allowed`` (bool, same axis) are right: ``[...]``."""


class OnVariables(Averaged):
    """The average of ``pointwise`` over the scored variables of an example."""

    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        known = checked_targets(prediction, targets)
        losses = reduce_variables(prediction.graph, self.pointwise, prediction.states, known.allowed)
        return weighted_sums(losses, self.variable_weights(known, losses))

    def variable_weights(self, targets: Targets, like: Tensor) -> Tensor:
        """How much each variable counts, ``[*b, variables]``; 0 where it is not scored."""
        return targets.scored.to(like.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class OnFactors(Averaged):
    """The average of ``pointwise`` over the factors all of whose variables are scored.

    ``groups``: names of the groups that count; by default all of arity 2 and more. A cell is right if the value of
    each variable is.
    """

    groups: Sequence[str] | None = None

    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        known = checked_targets(prediction, targets)
        side_by_side = whole_of(prediction)
        rows = None
        if side_by_side is not None:  # factors are not in rows: they are scored in the union, then added up by example
            rows, prediction = side_by_side
            known = whole_targets(rows, known)
        graph = prediction.graph
        total = prediction.states.new_zeros(2)
        for group in self._chosen(graph):
            table = prediction.factor(group.name).flatten(-group.arity)
            losses = self.pointwise(table, allowed_cells(graph, group, known.allowed))
            scopes = torch.tensor(group.scopes, device=table.device)
            scored = known.scored[..., scopes].all(-1).to(losses.dtype)  # [*b, factors]
            if rows is None:
                total = total + weighted_sums(losses, scored)
            else:
                pieces = weighted_sums(losses[:, None], scored[:, None])  # [factors, 2]
                part = torch.from_numpy(rows.union.factor_part(group.name)).to(table.device)
                total = total + pieces.new_zeros(len(rows), 2).index_add(0, part, pieces)
        if not bool((total[..., 0] > 0).any()):
            raise ValueError(
                f"no factor of the groups {[group.name for group in self._chosen(graph)]} has targets for all of its "
                "variables; use a loss on variables, or give targets for more of them"
            )
        return total

    def _chosen(self, graph: FactorGraph) -> list[Group]:
        if self.groups is not None:
            chosen = [graph.group(name) for name in self.groups]
            constant = next((group.name for group in chosen if group.arity == 0), None)
            if constant is not None:
                raise ValueError(
                    f"group {constant!r} has no variables, so there is nothing to score; leave it out of groups"
                )
        else:
            chosen = [group for group in graph.groups if group.arity >= 2]
        if not chosen:
            raise ValueError("the graph has no factor of two or more variables; use a loss on variables")
        return chosen


def weighted_sums(losses: Tensor, weights: Tensor) -> Tensor:
    """Total weight and weighted sum along the last axis, ``[*batch, 2]``; what weighs nothing may be NaN."""
    weights = weights.expand(broadcast_batches(losses.shape, weights.shape))
    total = torch.where(weights > 0, losses * weights, 0.0).sum(-1)
    return torch.stack([weights.sum(-1), total], -1)


def allowed_cells(graph: FactorGraph, group: Group, allowed: Tensor) -> Tensor:
    """Which cells of each factor's table are right, ``[*batch, factors, cells]``, from states ``[*batch, states]``."""
    cells = torch.ones((), dtype=torch.bool, device=allowed.device)
    for axis, size in enumerate(group.shape):
        start = torch.tensor(graph.layout.state_start[group.scopes[:, axis]], device=allowed.device)
        values = allowed[..., start[:, None] + torch.arange(size, device=allowed.device)]  # [*batch, factors, K]
        shape = [size if place == axis else 1 for place in range(group.arity)]
        cells = cells & values.reshape(*values.shape[:-1], *shape)
    return cells.flatten(-group.arity)


def checked_targets(prediction: Distributions, targets: TargetsLike) -> Targets:
    """Targets for the graph of ``prediction``, on its device; their batches must broadcast."""
    known = Targets.of(prediction.graph, targets).to(prediction.states.device)
    batch = prediction.states.shape[:-1]
    try:
        broadcast_batches(known.batch_shape, batch)
    except RuntimeError:
        raise ValueError(
            f"targets for {tuple(known.batch_shape)} examples do not fit a prediction for {tuple(batch)}; "
            "give one row for each example"
        ) from None
    return known
