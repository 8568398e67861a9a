"""Being written."""

from __future__ import annotations

from dataclasses import dataclass

from loopwise.gradient.marginals import MarginalGradient


@dataclass(frozen=True)
class Perturbation(MarginalGradient):
    """Being written."""
