r"""What a chain is trained for: likelihood, margins, any loss of marginals, with class weights.

In: a loss of ``lw.loss`` (or one of here), class weights. Out: objectives that the tagger's minimiser takes. Stage:
use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.chain_crf.design import MatrixDesign
from loopwise.apps.class_weights import weighted
from loopwise.apps.mrf.goals import checked_goal
from loopwise.apps.tagger.chains import Floats
from loopwise.apps.tagger.learners.descent import Objective as Descends
from loopwise.apps.tagger.learners.likelihood import NegativeLogLikelihood
from loopwise.apps.tagger.learners.risk import ExactRisk
from loopwise.apps.tagger.problem import Problem
from loopwise.apps.tagger.soft_losses import Gold, SoftLoss
from loopwise.graph.factor_graph import FactorGraph
from loopwise.loss.base import Loss
from loopwise.loss.f_measure import FBeta
from loopwise.loss.likelihood import Objective, SurrogateLikelihood

_LEAST = 1e-300  # probabilities below are taken for this


@dataclass(frozen=True)
class SoftmaxMargin:
    r""":math:`\sum_i\log\sum_y e^{\theta(y)+\Delta(y,y_i)}-\theta(y_i)`: likelihood with a margin.

    (Gimpel & Smith 2010.) :math:`\Delta` is ``cost`` for each wrong element, times the class weight of the right label.
    A smooth upper bound of the structured hinge loss, convex, at the price of likelihood.
    """

    cost: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.cost < np.inf:
            raise ValueError(f"cost must be a finite number, at least 0, not {self.cost}")


@dataclass(frozen=True, eq=False)
class WeightedLikelihood:
    r""":math:`-\frac1n\sum_t w_{y_t}\log p(y_t\mid y_{t-1},x)`: likelihood by the chain rule, class by class.

    With weights 1 this is the likelihood of the sequences. ``weights`` ``[K]``.
    """

    weights: Floats

    def __call__(self, single: Tensor, double: Tensor, gold: Gold) -> Tensor:
        token = torch.arange(len(gold.tag))
        tag = torch.from_numpy(gold.tag)
        begin = torch.zeros(len(tag), dtype=torch.bool)
        begin[torch.from_numpy(gold.start[:-1][np.diff(gold.start) > 0])] = True
        logs = _log(single[token, tag])
        after, before = token[~begin], token[~begin] - 1
        steps = _log(double[after, tag[before], tag[after]]) - logs[before]
        conditional = logs.masked_fill(~begin, 0.0).index_add(0, after, steps)
        return -(torch.from_numpy(self.weights)[tag] * conditional).mean()


@dataclass(frozen=True, eq=False)
class OfElements:
    """A loss of ``lw.loss`` over all elements together."""

    loss: Loss

    def __call__(self, single: Tensor, double: Tensor, gold: Gold) -> Tensor:
        return self.loss(_Elements(gold.graph, single), gold.targets)


class _Elements:
    """Marginals of elements as losses read them: the variables of one example."""

    def __init__(self, graph: FactorGraph, single: Tensor) -> None:
        self.graph = graph
        self.states = single.reshape(-1)

    def factor(self, name: str) -> Tensor:
        raise ValueError(f"a loss of elements has no factors {name!r}; choose a loss of variables")


def objective_of(
    loss: Any, problem: Problem, classes: NDArray[Any], positive: Any, weights: Floats | None
) -> tuple[Descends, Descends | None]:
    """What to minimise, and what to minimise first (None: nothing), since losses of marginals are not convex.

    All are sums over the elements, so that a penalty weighs alike.
    """
    if positive is not None and not isinstance(loss, FBeta):
        raise ValueError(f"positive is about F measures; loss {loss!r} has no positive class, so leave it out")
    if isinstance(loss, SoftmaxMargin):
        return NegativeLogLikelihood(_augmented(problem, loss.cost, weights)), None
    likelihood = NegativeLogLikelihood(problem)
    if loss is None or (isinstance(loss, SurrogateLikelihood) and not loss.joint):
        return (likelihood, None) if weights is None else (ExactRisk(problem, WeightedLikelihood(weights)), likelihood)
    return ExactRisk(problem, _soft(loss, classes, positive, weights)), likelihood


def _soft(loss: Any, classes: NDArray[Any], positive: Any, weights: Floats | None) -> SoftLoss:
    """A loss as a function of marginals."""
    if isinstance(loss, Loss):
        goal = checked_goal(loss, [classes], positive)
        chosen = goal if weights is None else weighted(goal, weights)
        assert isinstance(chosen, Loss)
        return OfElements(chosen)
    if isinstance(loss, Objective) or not callable(loss):
        raise ValueError(
            f"a chain is not trained for {loss!r}: give None for the likelihood, a loss such as lw.loss.F1(), or "
            "SoftmaxMargin()"
        )
    if weights is not None:
        raise ValueError(f"class_weight means nothing to {type(loss).__name__}; leave it out, or choose another loss")
    soft: SoftLoss = loss
    return soft


def _augmented(problem: Problem, cost: float, weights: Floats | None) -> Problem:
    """The problem with costs added to the scores of wrong labels: constants, so slopes stay what they are."""
    assert isinstance(problem.unary, MatrixDesign)
    element = np.arange(problem.tokens)
    own = np.ones(problem.states) if weights is None else weights
    costs = np.repeat((cost * own[problem.gold])[:, None], problem.states, axis=1)
    costs[element, problem.gold] = 0.0
    return replace(problem, unary=MatrixDesign(problem.unary.matrix, costs))


def _log(probability: Tensor) -> Tensor:
    return probability.clamp_min(_LEAST).log()
