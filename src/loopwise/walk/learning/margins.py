r"""Margins: by how much the better of two states must score above the worse.

In: the difference :math:`\Delta` of their signals. Out: the margin, :math:`a \Delta + b`. Stage: walking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Margin:
    r"""The margin :math:`a \Delta + b` of two states whose signals differ by :math:`\Delta > 0`."""

    scale: float
    constant: float

    def __post_init__(self) -> None:
        if not (0 <= self.scale < math.inf and 0 <= self.constant < math.inf and self.scale + self.constant > 0):
            raise ValueError(
                f"a margin must be positive and finite, not {self.scale} times the difference plus {self.constant}"
            )

    def __call__(self, difference: float) -> float:
        return self.scale * difference + self.constant


class OmegaMargin(Margin):
    """The difference of the signals itself, as the paper has it."""

    def __init__(self) -> None:
        super().__init__(1.0, 0.0)


class ScaledMargin(Margin):
    """``scale`` times the difference: a signal that is a share differs by little, and margins then mean little."""

    def __init__(self, scale: float) -> None:
        super().__init__(float(scale), 0.0)


class ConstantMargin(Margin):
    """The same for all pairs; for learners that compare with the truth, the 0-1 loss."""

    def __init__(self, constant: float = 1.0) -> None:
        super().__init__(0.0, float(constant))
