"""Losses on the distributions of variables, averaged over the scored variables of each example.

In: a decision or beliefs, targets. Out: a number, differentiable. Stage: loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from loopwise.graph.rows import RowGraph
from loopwise.inference.by_variable import reduce_variables, state_values
from loopwise.loss.base import OnVariables
from loopwise.loss.pointwise import log_loss, miss, smooth_error, squared_distance
from loopwise.loss.targets import Targets

DOMKE_SHARPNESS = 50.0  # Domke 2010, section 5: steep enough to count errors, smooth enough to follow


@dataclass(frozen=True, eq=False, kw_only=True)
class MSE(OnVariables):
    r"""Mean squared error, :math:`\frac1{2k} \sum_i \sum_x (d_i(x) - [x = y_i])^2` (Stoyanov et al. 2011, section 5).

    For binary variables this is :math:`\frac1k \sum_i (y_i - d_i(1))^2`.
    """

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return squared_distance(probabilities, allowed) / 2


@dataclass(frozen=True, eq=False, kw_only=True)
class MAE(OnVariables):
    r""":math:`\frac1k \sum_i (1 - d_i(y_i))`; of a hard decision, the share of wrong variables.

    For binary variables this is :math:`\frac1k \sum_i |y_i - d_i(1)|` (Stoyanov et al. 2011, section 5).
    """

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return miss(probabilities, allowed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Hamming(MAE):
    r""":math:`\sum_i w_i (1 - d_i(y_i)) / \sum_i w_i`: expected Hamming loss, weighted; :class:`MAE` without weights.

    ``weights``: one for each variable ``[variables]``, or one for each right answer ``[states]`` (class weights; a set
    of right values has the mean of theirs); for examples of a template, one for each value. None may be negative.
    """

    weights: Tensor | ArrayLike | None = None

    def variable_weights(self, targets: Targets, like: Tensor) -> Tensor:
        if self.weights is None:
            return super().variable_weights(targets, like)
        given = torch.as_tensor(self.weights, dtype=like.dtype, device=like.device)
        graph = targets.graph
        if not bool((given >= 0).all()):
            wrong = given[~(given >= 0)].flatten()[0].item()
            raise ValueError(f"weights of a Hamming loss must be zero or positive numbers, not {wrong}")
        if isinstance(graph, RowGraph):  # examples of a template have no variables in common, only values
            largest = int(graph.cardinalities.max(initial=0))
            if given.ndim != 1 or len(given) < largest:
                raise ValueError(
                    f"weights of shape {tuple(given.shape)} do not fit examples of different graphs: give one for each "
                    f"value, of which there are up to {largest}"
                )
            return _mean_over_allowed(targets, given[state_values(graph, given.device)])
        if given.shape == (graph.variables,):
            return given * targets.scored
        if given.shape != (graph.layout.states,):
            raise ValueError(
                f"weights of shape {tuple(given.shape)} do not fit the graph: give one for each of {graph.variables} "
                f"variables, or for each of {graph.layout.states} states"
            )
        return _mean_over_allowed(targets, given)


@dataclass(frozen=True, eq=False, kw_only=True)
class UnivariateLikelihood(OnVariables):
    r""":math:`-\frac1k \sum_i \log \mu_i(\hat x_i)` (Domke 2010, section 4; probabilities count as at least 1e-12)."""

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return log_loss(probabilities, allowed)


@dataclass(frozen=True, eq=False)
class SmoothError(OnVariables):
    r""":math:`\frac1k \sum_i S(\max_{x \ne \hat x_i} \mu_i(x) - \mu_i(\hat x_i))` (Domke 2010, section 4).

    :math:`S(t) = 1/(1 + e^{-\lambda t})`: a smooth count of errors, nearer to the count the larger ``sharpness``
    :math:`\lambda`.
    """

    sharpness: float = DOMKE_SHARPNESS

    def __post_init__(self) -> None:
        check_sharpness(self.sharpness)

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return smooth_error(probabilities, allowed, self.sharpness)


@dataclass(frozen=True, eq=False, kw_only=True)
class UnivariateQuadratic(OnVariables):
    r""":math:`\frac1k \sum_i \big[\sum_x \mu_i(x)^2 - 2 \mu_i(\hat x_i)\big]` (Domke 2010, section 4); at best -1."""

    def pointwise(self, probabilities: Tensor, allowed: Tensor) -> Tensor:
        return squared_distance(probabilities, allowed) - 1


def check_sharpness(sharpness: float) -> None:
    """Refuses a smooth error that would not grow with the error."""
    if not (sharpness > 0 and math.isfinite(sharpness)):
        raise ValueError(f"sharpness must be a positive number, not {sharpness}")


def _mean_over_allowed(targets: Targets, weights: Tensor) -> Tensor:
    """The mean weight of each variable's right values, ``[*batch, variables]``."""

    def mean(allowed: Tensor, block: Tensor) -> Tensor:
        return (allowed * block).sum(-1) / allowed.sum(-1).clamp_min(1)

    return reduce_variables(targets.graph, mean, targets.allowed, weights)
