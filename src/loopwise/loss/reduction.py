"""From one row of statistics an example to a number: averages over examples, or over everything at once.

In: a measure and its statistics ``[*batch, columns]``. Out: a scalar, or one number an example. Stage: loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from loopwise.loss.base import Measure


class Reduction(ABC):
    """How a measure goes from examples to a number."""

    @abstractmethod
    def __call__(self, measure: Measure, statistics: Tensor) -> Tensor:
        """The number; statistics ``[*batch, columns]``, the first column the weight of what was scored."""


@dataclass(frozen=True)
class Mean(Reduction):
    """Macro average: each example in which something is scored has weight 1."""

    def __call__(self, measure: Measure, statistics: Tensor) -> Tensor:
        counted = statistics[..., 0] > 0
        return measure.value(statistics).where(counted, 0.0).sum() / counted.sum().clamp_min(1)


@dataclass(frozen=True)
class Sum(Reduction):
    """The sum over examples."""

    def __call__(self, measure: Measure, statistics: Tensor) -> Tensor:
        return measure.value(statistics).where(statistics[..., 0] > 0, 0.0).sum()


@dataclass(frozen=True)
class Pooled(Reduction):
    """Micro average: statistics are added up over the examples first, so each scored variable has weight 1."""

    def __call__(self, measure: Measure, statistics: Tensor) -> Tensor:
        return measure.value(statistics.reshape(-1, statistics.shape[-1]).sum(0))


@dataclass(frozen=True)
class Each(Reduction):
    """No reduction: one number an example, ``[*batch]``, 0 where nothing is scored."""

    def __call__(self, measure: Measure, statistics: Tensor) -> Tensor:
        return measure.value(statistics).where(statistics[..., 0] > 0, 0.0)
