r"""Step rules: how far the weights go along the difference of a badly ranked pair.

In: nothing. Out: small option objects. Stage: walking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from loopwise.walk.kernels import codes as codes


@dataclass(frozen=True)
class Step:
    """A step rule; :attr:`code` is how compiled walks know it."""

    code: ClassVar[int]
    needs_margin: ClassVar[bool] = False

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Rate, cap and floor."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Rated(Step):
    """A step of a given length."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        _check("rate", self.rate)

    @property
    def numbers(self) -> tuple[float, float, float]:
        return self.rate, math.inf, 0.0


@dataclass(frozen=True)
class Unit(_Rated):
    r""":math:`\eta_t = \eta`, 1 unless told: the perceptron's."""

    code: ClassVar[int] = codes.UNIT


@dataclass(frozen=True)
class Decaying(_Rated):
    r""":math:`\eta_t = \eta_0 / \sqrt t`, t counting all steps of the walk."""

    code: ClassVar[int] = codes.DECAYING


@dataclass(frozen=True)
class AdaGrad(Step):
    r"""Each weight has its own step, :math:`\eta / (\sqrt{\sum g^2} + \epsilon)` (Duchi et al. 2011); sparse."""

    code: ClassVar[int] = codes.ADAGRAD

    rate: float = 0.1
    floor: float = 1e-8

    def __post_init__(self) -> None:
        _check("rate", self.rate)
        _check("floor", self.floor)

    @property
    def numbers(self) -> tuple[float, float, float]:
        return self.rate, math.inf, self.floor


@dataclass(frozen=True)
class MIRA(Step):
    r"""The smallest change that meets the margin, but no more than ``cap`` (Crammer and Singer 2003).

    .. math:: \eta_t = \min\left(C, \frac{\Delta - \theta\cdot\hat\nabla}{\|\hat\nabla\|^2}\right)

    After a step that was not capped the constraint holds with equality.
    """

    code: ClassVar[int] = codes.MIRA
    needs_margin: ClassVar[bool] = True

    cap: float = 1.0

    def __post_init__(self) -> None:
        if not self.cap > 0:
            raise ValueError(f"cap must be positive, not {self.cap}")

    @property
    def numbers(self) -> tuple[float, float, float]:
        return 1.0, self.cap, 0.0


def _check(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, not {value}")
