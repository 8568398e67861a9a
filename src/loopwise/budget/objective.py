r"""Loss and run time in one number: :math:`\ell+\lambda\,t_{run}`.

In: decisions that know what they cost (:class:`Priced`). Out: :class:`SpeedAugmented`, a loss to train for and to
measure by. Stage: budget (Eisner & Stoyanov 2011, section 2; cost-aware spec, sections 1 and 2.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from loopwise.graph.rows import Rows
from loopwise.inference.decision import Decision, Distributions
from loopwise.inference.rows import RowDecision
from loopwise.loss.base import Loss
from loopwise.loss.reduction import Each, Mean
from loopwise.loss.targets import TargetsLike


class Priced(Decision):
    """A decision with its cost, as a share of the dense system's longest run.

    ``weights``: None, or the probabilities ``[sweeps, *batch]`` of stopping after each sweep; then the decision has the
    sweeps as its first batch axis. ``cost``: ``[*batch]``, in expectation, differentiable. ``penalty``: a number to be
    added to a loss of it, such as one on the weights of a policy.
    """

    def __init__(
        self, decision: Decision, cost: Tensor, weights: Tensor | None = None, penalty: Tensor | None = None
    ) -> None:
        super().__init__(decision.beliefs, decision.states, decision.factor, hard=decision.hard)
        self.cost, self.weights, self.penalty = cost, weights, penalty

    def in_rows(self, rows: Rows) -> Priced:
        """The same of a union as measures take it: a row an example, whose cost is its own."""
        return Priced(RowDecision(rows, self), self.cost, self.weights, self.penalty)


@dataclass(frozen=True, eq=False, kw_only=True)
class SpeedAugmented(Loss):
    r"""The expected speed-augmented loss :math:`J=\sum_t q_t\,(\ell_t+\lambda\,t\,R)` of an example.

    ``loss``: :math:`\ell`, a mean over examples. ``price``: :math:`\lambda\ge0`, what the longest run of the dense
    system would cost in units of the loss. Takes what a :class:`~loopwise.budget.Budgeted` system decides: soft
    decisions in training (:math:`q` from a smoothed policy), hard ones in evaluation.
    """

    loss: Loss
    price: float

    def __post_init__(self) -> None:
        check_price(self.price)
        if not isinstance(self.loss, Loss):
            raise ValueError(f"the loss must be one of lw.loss, such as lw.loss.MSE(), not {type(self.loss).__name__}")
        if not isinstance(self.loss.reduction, Mean) or not isinstance(self.reduction, Mean):
            raise ValueError(
                "loss and run time are added up example by example, so the reduction must be the mean over examples, "
                f"not {type(self.loss.reduction).__name__}"
            )

    @property
    def columns(self) -> int:
        return 2

    def statistics(self, prediction: Distributions, targets: TargetsLike) -> Tensor:
        if not isinstance(prediction, Priced):
            raise ValueError(
                f"a {type(prediction).__name__} does not say what it cost; measure a lw.budget.Budgeted system"
            )
        found = self.loss.statistics(prediction, targets)
        losses = Each()(self.loss, found)
        counted = found[..., 0] > 0
        if prediction.weights is not None:
            losses, counted = (prediction.weights * losses).sum(0), counted[-1]
        total = losses + self.price * prediction.cost
        if prediction.penalty is not None:
            total = total + prediction.penalty
        return torch.stack([counted.to(total.dtype).expand(total.shape), total], -1)

    def value(self, statistics: Tensor) -> Tensor:
        return statistics[..., 1]


def check_price(price: float) -> None:
    """Refuses a price that would reward slowness."""
    if not 0 <= price < math.inf:
        raise ValueError(f"the price of run time (lambda) must be a finite number, at least 0, not {price}")
