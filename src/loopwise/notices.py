"""Every warning and error class of the library, and where a warning points, in one place below all stages."""

from __future__ import annotations

import sys


class LoopwiseWarning(UserWarning):
    """Every warning of this library is of this class or one below it."""


class ConvergenceWarning(LoopwiseWarning):
    """Inference stopped at its cap before its tolerance: the beliefs may be far from a fixed point."""


class GradientWarning(LoopwiseWarning):
    """A gradient was computed where its estimator may not be valid."""


class ImpossibleError(ValueError):
    """The evidence (or the zeros of the potentials) leaves no possible configuration."""


class GradientError(ValueError):
    """The chosen gradient estimator is not valid for this method, this run or this loss."""


def callers_level() -> int:
    """How far up the stack the first frame outside this library and torch is: where a warning should point."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("loopwise", "torch"):
        level, frame = level + 1, frame.f_back
    return level
