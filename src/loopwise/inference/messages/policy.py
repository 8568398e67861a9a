r"""The stopping policy: stop as soon as :math:`w\cdot\phi_t>0`.

In: features of a run's sweeps. Out: scores, one a sweep and example; :class:`StopByPolicy`, a rule to stop by. Stage:
inference (Eisner & Stoyanov 2011, section 3). How a policy is trained is in ``loopwise.budget``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.parts import Parts
from loopwise.inference.base import Problem
from loopwise.inference.messages.features import STANDARD, Bias, Course, Feature, stacked
from loopwise.inference.messages.stop import Stop, Watch

CONSTANT = 1e-9  # a feature that varies less is left as it is


class Policy(nn.Module):
    r""":math:`w\cdot\frac{\phi_t-\mu}{\sigma}` with trained weights :math:`w`; :math:`\mu,\sigma` are set by
    :meth:`standardise`.

    ``features``: what is looked at. ``stops``: how probable it is at first to stop after any one sweep, when thresholds
    have width 1: weights are 0 but for the bias.

    >>> policy = Policy(stops=0.25)
    >>> round(torch.sigmoid(policy.weights.detach()[0]).item(), 6)
    0.25
    """

    centre: Tensor
    scale: Tensor

    def __init__(
        self, features: Sequence[Feature] = STANDARD, *, stops: float = 0.1, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__()
        self.features = tuple(features)
        if not self.features:
            raise ValueError("a policy needs at least one feature to look at, such as lw.budget.Bias()")
        wrong = next((feature for feature in self.features if not isinstance(feature, Feature)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is no feature of a policy; give objects such as lw.budget.LargestChange()")
        if not 0 < stops < 1:
            raise ValueError(f"stops must be a probability between 0 and 1, not {stops}")
        start = [math.log(stops / (1 - stops)) if isinstance(feature, Bias) else 0.0 for feature in self.features]
        self.weights = nn.Parameter(torch.tensor(start, dtype=dtype))
        self.register_buffer("centre", torch.zeros(len(start), dtype=dtype))
        self.register_buffer("scale", torch.ones(len(start), dtype=dtype))

    def forward(self, course: Course, *, detach: bool = False) -> Tensor:
        """Scores ``[sweeps, *batch]``; ``detach``: without the gradient that goes through the features."""
        values = stacked(self.features, course)
        values = (values.detach() if detach else values) - self.centre
        return (values / self.scale) @ self.weights.to(values.dtype)

    @torch.no_grad()
    def standardise(self, values: Tensor) -> None:
        """Sets centre and scale to the mean and standard deviation of features ``[..., features]``.

        A feature that does not vary (the bias) stays as it is.
        """
        rows = values.reshape(-1, len(self.features)).to(self.centre)
        spread = rows.std(0, correction=0)
        constant = spread < CONSTANT
        self.centre.copy_(torch.where(constant, 0.0, rows.mean(0)))
        self.scale.copy_(torch.where(constant, 1.0, spread))

    def extra_repr(self) -> str:
        pairs = zip(self.features, self.weights.tolist(), strict=True)
        return ", ".join(f"{type(feature).__name__} {weight:.3g}" for feature, weight in pairs)


@dataclass(frozen=True, eq=False)
class StopByPolicy(Stop):
    r"""The same rule for ``stop=`` of message passing: :math:`w\cdot\phi_t>0`, beside others in ``lw.inference.AnyOf``.

    Features look at all variables that evidence leaves. Beliefs, messages and gradients are those of the sweeps that
    were made, on any schedule with sweeps and with structured factors; the policy itself is trained in
    :class:`Stopping`, whose runs on tables are faster.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> policy = lw.budget.Policy([lw.budget.Bias(), lw.budget.SweepShare()])
    >>> _ = policy.weights.data.copy_(torch.tensor([-1.0, 2.5]))  # stop after 40 % of the sweeps
    >>> method = lw.BP(iterations=10, stop=lw.budget.StopByPolicy(policy))
    >>> status = method(graph, lw.TablePotentials.random(graph, seed=0)).status
    >>> int(status.sweeps), status.stop_rules[status.stopped]
    (5, 'StopByPolicy')
    """

    policy: Policy

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise ValueError(f"the policy must be a lw.budget.Policy, not {type(self.policy).__name__}")

    def watch(self, problem: Problem, limit: int) -> Watch | None:
        return _PolicyWatch(problem.graph, self.policy, limit, self.watched(problem))

    def watch_parts(self, problem: Problem, limit: int) -> Watch | None:
        parts = Parts.of(problem.graph)
        return _PolicyWatch(problem.graph, self.policy, limit, self.watched(problem), parts)

    def watched(self, problem: Problem) -> Tensor:
        """The variables that features look at, bool ``[variables]``."""
        return torch.ones(problem.graph.variables, dtype=torch.bool)


class _PolicyWatch(Watch):
    """Remembers the beliefs of the sweep before, and how far they had moved."""

    def __init__(
        self, graph: FactorGraph, policy: Policy, limit: int, watched: Tensor, parts: Parts | None = None
    ) -> None:
        self.graph, self.policy, self.limit = graph, policy, limit
        self.watched, self.parts = watched, parts

    def begin(self, states: Tensor) -> None:
        self.states = states.clone()
        self.change = states.new_zeros(len(states) if self.parts is None else self.parts.count)

    def fires(self, sweep: int, rows: Integers, states: Tensor) -> Tensor:
        which = torch.from_numpy(rows).to(states.device)
        if self.parts is not None:
            trace, last = torch.stack([self.states[0], states[0]]), None if sweep == 1 else self.change
            course = Course(self.graph, trace, self.watched, self.limit, sweep, last, parts=self.parts)
            fired: Tensor = self.policy(course)[0] > 0
            self.states, self.change = states.clone(), course.largest[0]
            return fired[which]
        last = None if sweep == 1 else self.change[which]
        trace = torch.stack([self.states[which], states])
        course = Course(self.graph, trace, self.watched.to(states.device), self.limit, sweep, last)
        fired = self.policy(course)[0] > 0
        self.states[which], self.change[which] = states, course.largest[0]
        return fired
