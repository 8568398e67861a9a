"""F-measures as losses: soft counts of positives.

In: a decision or beliefs, targets. Out: a number, differentiable. Stage: loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from loopwise.inference.by_variable import Labels, label_list, labels_mask, reduce_variables
from loopwise.inference.decision import Distributions
from loopwise.loss.base import Loss, checked_targets
from loopwise.loss.targets import TargetsLike


@dataclass(frozen=True, eq=False, kw_only=True)
class FBeta(Loss):
    r""":math:`1 - F_\beta`, :math:`F_\beta = (1 + \beta^2) A / (\beta^2 G + D)`; :math:`F = 1` if :math:`G = D = 0`.

    :math:`A = \sum_i [y_i \in P] d_i(y_i)` is the agreement, :math:`G` the number of gold positives and
    :math:`D = \sum_i d_i(P)` that of decided ones, over the scored variables; for binary variables and
    :math:`\beta = 1`, :math:`F = 2 \sum y_i \hat y_i / (\sum y_i + \sum \hat y_i)` (Stoyanov et al. 2011, section 5).
    ``positive``: the label or labels :math:`P`. Macro over examples; micro with ``reduction=Pooled()``.

    A set of right values with positive and negative ones counts as gold as far as it is decided positive rightly.
    """

    beta: float = 1.0
    positive: Labels = 1

    def __post_init__(self) -> None:
        check_f(self.beta, self.positive)

    @property
    def columns(self) -> int:
        return 4

    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        known = checked_targets(prediction, targets)
        positive = labels_mask(prediction.graph, self.positive, prediction.states.device)
        counts = reduce_variables(prediction.graph, _agreement, prediction.states, known.allowed, positive)
        decided = reduce_variables(prediction.graph, _decided, prediction.states, positive)
        certain = reduce_variables(prediction.graph, only_positive, known.allowed, positive)
        gold = torch.where(certain, 1.0, counts)
        columns = [torch.ones_like(counts), counts, decided, gold]
        return torch.stack([column.where(known.scored, 0.0).sum(-1) for column in columns], -1)

    def value(self, statistics: Tensor) -> Tensor:
        return 1 - f_measure(statistics, self.beta)


@dataclass(frozen=True, eq=False, kw_only=True)
class F1(FBeta):
    """:class:`FBeta` with beta 1: the harmonic mean of precision and recall, subtracted from 1."""

    beta: float = field(default=1.0, init=False)


def f_measure(statistics: Tensor, beta: float) -> Tensor:
    """F from columns (scored, agreed, decided, gold); 1 where nothing is gold and nothing decided positive."""
    agreed, decided, gold = statistics[..., 1], statistics[..., 2], statistics[..., 3]
    size = beta**2 * gold + decided
    empty = size <= 0
    return torch.where(empty, 1.0, (1 + beta**2) * agreed / torch.where(empty, 1.0, size))


def check_f(beta: float, positive: Labels) -> None:
    """Refuses an F-measure without meaning."""
    if not beta > 0:
        raise ValueError(f"beta must be positive, not {beta}")
    label_list(positive)


def _agreement(block: Tensor, allowed: Tensor, positive: Tensor) -> Tensor:
    return (block * (allowed & positive)).sum(-1)


def _decided(block: Tensor, positive: Tensor) -> Tensor:
    return (block * positive).sum(-1)


def only_positive(allowed: Tensor, positive: Tensor) -> Tensor:
    """Whether there are right values, along the last axis, and all of them are positive."""
    return allowed.any(-1) & (~allowed | positive).all(-1)
