"""Every warning and error class of the library, in one place, below all stages."""

from __future__ import annotations


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
