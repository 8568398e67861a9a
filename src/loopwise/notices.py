"""The warning and error classes that stages share, where a warning points, and the quiet root of the log.

Below all stages. Every warning is a :class:`LoopwiseWarning` of a class of its own, so that it can be filtered by what
it is about; the log goes through the standard :mod:`logging`, a logger for each module under ``loopwise``, and is
shown only to those who ask for it.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence

__all__ = [
    "BudgetWarning",
    "ChangedError",
    "ConstraintWarning",
    "ConvergenceWarning",
    "DataWarning",
    "GradientError",
    "GradientWarning",
    "ImpossibleError",
    "LoopwiseWarning",
]

logging.getLogger("loopwise").addHandler(logging.NullHandler())


class LoopwiseWarning(UserWarning):
    """Every warning of this library is of a class below this one."""


class ConvergenceWarning(LoopwiseWarning):
    """Inference stopped at its cap before its tolerance: the beliefs may be far from a fixed point."""


class GradientWarning(LoopwiseWarning):
    """A gradient was computed where its estimator may not be valid."""


class ConstraintWarning(LoopwiseWarning):
    """An answer breaks a hard zero of the model."""


class DataWarning(LoopwiseWarning):
    """Part of the data was left out, or read otherwise than it was written."""


class BudgetWarning(LoopwiseWarning):
    """A system was made so cheap that little of it is left."""


class TimeWarning(LoopwiseWarning):
    """What was asked for will take long."""


class ImpossibleError(ValueError):
    """The evidence (or the zeros of the potentials) leaves no possible configuration."""


def in_example(example: Sequence[int]) -> str:
    """Which example of a batch an error is about; nothing where there is no batch.

    >>> in_example([3]), in_example((0, 2)), in_example([])
    (' (example 3)', ' (example (0, 2))', '')
    """
    if not example:
        return ""
    return f" (example {example[0] if len(example) == 1 else tuple(example)})"


class ChangedError(ValueError):
    """Potentials were changed in place before everything was computed that they are needed for."""


class GradientError(ValueError):
    """The chosen gradient estimator is not valid for this method, this run or this loss."""


def warn(text: str, category: type[Warning]) -> None:
    """A warning that points at the first line outside this library and torch on the way here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("loopwise", "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
