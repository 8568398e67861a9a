"""Losses on the joint distributions of factors, averaged over the factors whose variables are all scored.

In: a decision or beliefs, targets. Out: a number, differentiable. Stage: loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from loopwise.loss.base import OnFactors
from loopwise.loss.pointwise import log_loss, smooth_error, squared_distance
from loopwise.loss.univariate import DOMKE_SHARPNESS, check_sharpness


@dataclass(frozen=True, eq=False, kw_only=True)
class CliqueLikelihood(OnFactors):
    r""":math:`-\frac1m \sum_\alpha \log \mu_\alpha(\hat x_\alpha)` over the :math:`m` scored factors (Domke 2010)."""

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return log_loss(probabilities, allowed)


@dataclass(frozen=True, eq=False)
class SmoothCliqueError(OnFactors):
    r""":math:`\frac1m \sum_\alpha S(\max_{x \ne \hat x_\alpha} \mu_\alpha(x) - \mu_\alpha(\hat x_\alpha))`.

    (Domke 2010, section 4.) :math:`x` goes over the joint values of a factor's variables; :math:`S(t) = 1/(1 +
    e^{-\lambda t})` with ``sharpness`` :math:`\lambda`.
    """

    sharpness: float = DOMKE_SHARPNESS

    def __post_init__(self) -> None:
        check_sharpness(self.sharpness)

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return smooth_error(probabilities, allowed, self.sharpness)


@dataclass(frozen=True, eq=False, kw_only=True)
class CliqueQuadratic(OnFactors):
    r""":math:`\frac1m \sum_\alpha \big[\sum_{x_\alpha} \mu_\alpha(x_\alpha)^2 - 2 \mu_\alpha(\hat x_\alpha)\big]`
    (Domke 2010, section 4)."""

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return squared_distance(probabilities, allowed) - 1
