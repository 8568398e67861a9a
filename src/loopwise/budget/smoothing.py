r"""Stopping made smooth: how probable it is to stop after each sweep, and what that costs in expectation.

In: scores :math:`w\cdot\phi_t` of every sweep. Out: weights :math:`q_t` that sum to 1. Stage: budget (Eisner & Stoyanov
2011, section 3, with the forced stop at the last sweep; cost-aware spec, section 2.2).

The threshold 0 of the hard rule is replaced by a random one, :math:`\Theta\sim\mathrm{Logistic}(0,s)`; as
:math:`s\to0` the expected cost becomes that of the hard rule.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from loopwise.decode.temperature import TemperatureSchedule


class RandomThreshold(ABC):
    """How random thresholds are drawn in one run."""

    @abstractmethod
    def weights(self, scores: Tensor, width: float) -> Tensor:
        """The probability of stopping after each sweep, ``[sweeps, *batch]``, from scores of that shape.

        ``width`` is :math:`s`. After the last sweep a run stops, whatever its score.
        """

    @abstractmethod
    def draw(self, sweeps: int, shape: tuple[int, ...], width: float, generator: torch.Generator) -> Tensor:
        """Random thresholds, ``[sweeps, *shape]``: a run stops where its score first exceeds them."""


@dataclass(frozen=True)
class IndependentThresholds(RandomThreshold):
    r"""A fresh threshold after each sweep: :math:`q_t=p_t\prod_{t'<t}(1-p_{t'})`, :math:`p_t=\sigma(w\cdot\phi_t/s)`.

    The published formula. Logarithms of survival are added, so nothing underflows on the way. Gradients are those of
    the spec, section 2.3: :math:`\partial J/\partial p_t=P_t(c_t-V_{t+1})`.
    """

    def weights(self, scores: Tensor, width: float) -> Tensor:
        scaled = _checked(scores, width) / width
        going_on = logsigmoid(-scaled)  # log(1 - p)
        before = torch.cat([torch.zeros_like(scaled[:1]), going_on[:-1].cumsum(0)])
        stopping = torch.cat([logsigmoid(scaled[:-1]), torch.zeros_like(scaled[:1])])
        return torch.exp(before + stopping)

    def draw(self, sweeps: int, shape: tuple[int, ...], width: float, generator: torch.Generator) -> Tensor:
        return width * _logistic((sweeps, *shape), generator)


@dataclass(frozen=True)
class Shared(RandomThreshold):
    r"""One threshold a run: :math:`P(\text{stop}\le t)=\sigma(\max_{t'\le t}w\cdot\phi_{t'}/s)`."""

    def weights(self, scores: Tensor, width: float) -> Tensor:
        highest = torch.cummax(_checked(scores, width) / width, 0).values
        reached = torch.cat([torch.sigmoid(highest[:-1]), torch.ones_like(highest[:1])])
        return reached - torch.cat([torch.zeros_like(reached[:1]), reached[:-1]])

    def draw(self, sweeps: int, shape: tuple[int, ...], width: float, generator: torch.Generator) -> Tensor:
        return width * _logistic((1, *shape), generator).expand(sweeps, *shape)


@dataclass(frozen=True)
class Falling(TemperatureSchedule):
    r""":math:`s_e=\max(s_{min},s_0\gamma^e)` in epoch :math:`e` (cost-aware spec, section 2.4).

    >>> [round(Falling(1.0, 0.5, 0.2)(epoch), 2) for epoch in range(4)]
    [1.0, 0.5, 0.25, 0.2]
    """

    start: float = 1.0
    factor: float = 0.8
    least: float = 0.02

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.start < math.inf:
            raise ValueError(f"start must be at least as large as least, which is positive: {self.start}, {self.least}")
        if not 0 < self.factor <= 1:
            raise ValueError(f"factor must be positive and at most 1, not {self.factor}")

    def __call__(self, step: int) -> float:
        return max(self.least, self.start * self.factor ** max(step, 0))


@dataclass(frozen=True)
class Doubling(TemperatureSchedule):
    """``start``, doubled after each of the epochs ``after``: how the released toolkit sharpens its gates.

    >>> [Doubling(1.0, (3, 7, 10))(epoch) for epoch in (0, 2, 3, 7, 12)]
    [1.0, 1.0, 2.0, 4.0, 8.0]
    """

    start: float = 1.0
    after: tuple[int, ...] = (3, 7, 10)

    def __post_init__(self) -> None:
        if not 0 < self.start < math.inf:
            raise ValueError(f"start must be a positive number, not {self.start}")

    def __call__(self, step: int) -> float:
        return self.start * 2.0 ** sum(step >= epoch for epoch in self.after)


def first_stop(scores: Tensor, thresholds: Tensor | float = 0.0) -> Tensor:
    """The row of the first score above its threshold, ``[*batch]``; the last row where none is. The hard rule."""
    above = scores > thresholds
    above[-1] = True
    return above.to(torch.uint8).argmax(0)


def _checked(scores: Tensor, width: float) -> Tensor:
    if not (width > 0 and math.isfinite(width)):
        raise ValueError(f"the width of thresholds must be a positive number, not {width}")
    if scores.ndim == 0 or len(scores) == 0:
        raise ValueError("there is no sweep to stop after; allow at least one iteration")
    return scores


def _logistic(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.logit(uniform.clamp(1e-300, 1 - 1e-16))
