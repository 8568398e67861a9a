r"""The best policy for a model as it is: all runs are made once, then only :math:`w` is trained.

In: a system with a stopping policy, examples, a loss, a price. Out: changed weights of the policy. Stage: budget. With
the model fixed, features and losses of all sweeps are numbers: hundreds of steps cost less than an epoch of the model.
So joint training starts from here, and several starts can be tried, which the objective, not convex, needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from loopwise.budget.budgeted import Budgeted
from loopwise.budget.cost import Cost
from loopwise.budget.gating.evidence_gates import without_evidence_gates
from loopwise.budget.objective import SpeedAugmented
from loopwise.budget.smoothing import IndependentThresholds, RandomThreshold, first_stop
from loopwise.budget.stopping import Stopping
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.messages.features import Bias, Feature, LargestChange
from loopwise.inference.messages.policy import Policy
from loopwise.learn.data.template_examples import Corpus
from loopwise.learn.optim.adam import DenseAdam
from loopwise.learn.system import CHUNK, System, answering
from loopwise.loss.base import Loss
from loopwise.loss.reduction import Each

STOPS = (0.05, 0.3)  # first probabilities of stopping after a sweep
LEVELS = (-1.0, -2.0)  # first thresholds of the largest change, in powers of ten
WIDEST, MIDDLE, NARROWEST = 1.0, 0.2, 0.03  # of thresholds: at first, at first when trained on, at last
CHECKS = 25  # steps between looks at the hard rule
DECAY = 1e-4


@dataclass(frozen=True)
class PolicyFit:
    """How a policy is trained on runs that are there: ``steps`` of Adam from each start, thresholds ever narrower."""

    steps: int = 300
    rate: float = 0.05
    threshold: RandomThreshold = IndependentThresholds()  # noqa: RUF009 (frozen and without state)

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.rate > 0:
            raise ValueError(f"steps must be at least 1 and rate positive, not {self.steps} and {self.rate}")


class _Runs(NamedTuple):
    """All sweeps of all examples: standardised features ``[sweeps, examples, features]``, price and loss of each."""

    features: Tensor
    costs: Tensor  # [sweeps, examples]: loss + price * cost

    def hard(self, weights: Tensor) -> float:
        """The mean cost under the hard rule."""
        stops = first_stop(self.features @ weights)
        return float(self.costs.gather(0, stops[None]).mean())


def fit_policy(
    system: System,
    examples: Corpus,
    loss: Loss,
    price: float,
    *,
    cost: Cost | None = None,
    how: PolicyFit | None = None,
    fresh: bool = True,
) -> float:
    r"""Trains the policy of ``system`` alone, for :math:`\ell+\lambda\,t_{run}`; returns what the hard rule then costs.

    ``fresh``: features are standardised, and training begins at two rates of stopping and at two thresholds of the
    largest change; the start with the least cost under the hard rule wins, at the step where it was least. Else the
    policy as it is is trained on, with narrow thresholds. One run of inference an example, then seconds.
    """
    how = PolicyFit() if how is None else how
    stopping = without_evidence_gates(system.inference)
    if not isinstance(stopping, Stopping):
        raise ValueError(f"inference by {type(stopping).__name__} has no policy; wrap it in lw.budget.Stopping")
    goal = SpeedAugmented(loss=loss, price=price)
    policy = stopping.policy
    features, costs = _collect(system, examples, goal, cost)
    if fresh:
        policy.standardise(features)
    runs = _Runs((features - policy.centre) / policy.scale, costs)
    starts = _starts(policy) if fresh else [policy.weights.detach().clone()]
    found = [_descend(runs, start, how, WIDEST if fresh else MIDDLE) for start in starts]
    least, best = min(found, key=lambda pair: pair[0])
    with torch.no_grad():
        policy.weights.copy_(best)
    return least


def _collect(system: System, examples: Corpus, goal: SpeedAugmented, cost: Cost | None) -> tuple[Tensor, Tensor]:
    """Features ``[sweeps, examples, features]`` and speed-augmented losses ``[sweeps, examples]``."""
    budgeted = Budgeted(system, cost)
    stopping = budgeted.inner
    assert isinstance(stopping, Stopping)
    decoder = system.decoder.soft()
    features, costs = [], []
    with answering(system), ignored_convergence():
        for part in system.examples(examples).batches(CHUNK, by_pattern=True):
            tables, present = budgeted.faded(part)
            graph = system.graph_for(part)
            run = stopping.every_sweep(graph, tables, part.evidence)
            decision = part.by_example(budgeted.every_decision(decoder, run.beliefs, part))
            losses = Each()(goal.loss, goal.loss.statistics(decision, part.targets))
            numbers = torch.arange(1, stopping.limit + 1, dtype=losses.dtype)[:, None].expand(losses.shape)
            features.append(run.features)
            costs.append(losses + goal.price * budgeted.share(numbers, present, part.evidence, graph))
    if not features:
        raise ValueError("there are no examples to train a policy on; give at least one")
    return torch.cat(features, 1), torch.cat(costs, 1)


def _descend(runs: _Runs, start: Tensor, how: PolicyFit, widest: float) -> tuple[float, Tensor]:
    weights = start.clone().requires_grad_()
    optimizer = DenseAdam([weights], lr=how.rate)
    best = (runs.hard(start), start)
    for step in range(how.steps):
        width = max(NARROWEST, widest * (NARROWEST / widest) ** (step / max(1.0, 0.8 * how.steps)))
        chances = how.threshold.weights(runs.features @ weights, width)
        value = (chances * runs.costs).sum(0).mean() + 0.5 * DECAY * weights.square().sum()
        (weights.grad,) = torch.autograd.grad(value, [weights])
        optimizer.step()
        if step % CHECKS == CHECKS - 1 or step == how.steps - 1:
            now = weights.detach().clone()
            best = min(best, (runs.hard(now), now), key=lambda pair: pair[0])
    return best


def _starts(policy: Policy) -> list[Tensor]:
    """First weights, for features as the policy standardises them now."""
    bias = _place(policy.features, Bias)
    if bias is None:
        return [torch.zeros_like(policy.weights.detach())]
    starts = []
    for stops in STOPS:
        start = torch.zeros_like(policy.weights.detach())
        start[bias] = math.log(stops / (1 - stops))
        starts.append(start)
    change = _place(policy.features, LargestChange)
    if change is not None:
        for level in LEVELS:  # level - log10 of the change, in standardised features
            start = torch.zeros_like(policy.weights.detach())
            start[change] = -policy.scale[change]
            start[bias] = level - policy.centre[change]
            starts.append(start)
    return starts


def _place(features: Sequence[Feature], kind: type[Feature]) -> int | None:
    return next((place for place, feature in enumerate(features) if isinstance(feature, kind)), None)
