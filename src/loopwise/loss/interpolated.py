"""Losses made of losses: interpolations, and losses on beliefs beside losses on decisions.

In: losses. Out: a loss. Stage: loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from loopwise.inference.decision import Decision, Distributions
from loopwise.loss.base import Loss
from loopwise.loss.targets import TargetsLike
from loopwise.loss.univariate import MSE

HYBRID = (0.0, 0.5, 1.0)  # Stoyanov et al. 2011, section 5: from the smooth loss to the target in two steps


@dataclass(frozen=True, eq=False)
class OnBeliefs(Loss):
    """``loss`` of the beliefs that were decoded, whatever the decision."""

    loss: Loss

    @property
    def columns(self) -> int:
        return self.loss.columns

    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        source = prediction.beliefs if isinstance(prediction, Decision) else prediction
        return self.loss.statistics(source, targets)

    def value(self, statistics: Tensor) -> Tensor:
        return self.loss.value(statistics)

    def combine(self, statistics: Tensor) -> Tensor:
        return self.loss.combine(statistics)


@dataclass(frozen=True, eq=False)
class Interpolated(Loss):
    r""":math:`\lambda\, \ell_{target} + (1 - \lambda)\, \ell_{smooth}` (Stoyanov et al. 2011, the ``-hyb`` settings).

    ``smooth`` is the MSE of the beliefs unless given. ``schedule`` holds the weights :math:`\lambda` of the stages of
    training; :meth:`at` gives the loss of a stage. Each of the two losses reduces by its own ``reduction``; a loss of
    weight 0 is not computed.
    """

    target: Loss
    smooth: Loss = field(default_factory=lambda: OnBeliefs(MSE()))
    weight: float = 1.0
    schedule: tuple[float, ...] = HYBRID

    def __post_init__(self) -> None:
        for weight in (self.weight, *self.schedule):
            if not 0 <= weight <= 1:
                raise ValueError(f"the weight of an interpolation must be from 0 to 1, not {weight}")
        if not self.schedule:
            raise ValueError("the schedule of an interpolation needs at least one weight; give one or more from 0 to 1")

    @property
    def stages(self) -> int:
        return len(self.schedule)

    def at(self, stage: int) -> Interpolated:
        """The loss of stage 0, 1, ...; the last one for all later stages."""
        return replace(self, weight=self.schedule[min(max(stage, 0), self.stages - 1)])

    @property
    def columns(self) -> int:
        return self.target.columns + self.smooth.columns

    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        parts = (self.target.statistics(prediction, targets), self.smooth.statistics(prediction, targets))
        return torch.cat(parts, -1)

    def value(self, statistics: Tensor) -> Tensor:
        target, smooth = self._parts(statistics)
        return self.weight * self.target.value(target) + (1 - self.weight) * self.smooth.value(smooth)

    def combine(self, statistics: Tensor) -> Tensor:
        target, smooth = self._parts(statistics)
        return self.weight * self.target.combine(target) + (1 - self.weight) * self.smooth.combine(smooth)

    def per_example(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        target = self.target.per_example(prediction, targets)
        return self.weight * target + (1 - self.weight) * self.smooth.per_example(prediction, targets)

    def __call__(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        if self.weight == 1:
            return self.target(prediction, targets)
        if self.weight == 0:
            return self.smooth(prediction, targets)
        return self.combine(self.statistics(prediction, targets))

    def _parts(self, statistics: Tensor) -> tuple[Tensor, Tensor]:
        width = self.target.columns
        return statistics[..., :width], statistics[..., width:]
