"""What a learner does at each step of a walk, as one description that both engines follow.

In: options of a learner. Out: a :class:`LearningRule`. Stage: walking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from loopwise.walk.kernels import codes as codes
from loopwise.walk.learning.margins import Margin, OmegaMargin
from loopwise.walk.learning.steps import Step, Unit

# Steps after which the running difference to the truth is computed anew: sums of features with fractions drift.
REBUILD = 10_000


class Accept(Enum):
    """The weights by which a proposal is accepted: those after the update (the paper) or those before."""

    UPDATED = "updated"
    STALE = "stale"


class Towards(Enum):
    """Updates towards the truth: none, where the margin to the truth is not met, or always."""

    NONE = codes.NO_TRUTH
    MARGIN = codes.TRUTH_MARGIN
    ALWAYS = codes.TRUTH_ALWAYS


@dataclass(frozen=True)
class LearningRule:
    """One learner. ``atomic``: rank the current state against the proposed one.

    ``towards``: updates along the features of the truth less those of the state, every ``every`` steps, with
    ``on_ties`` only where the signals of the pair are equal; ``reset``: back to the truth after each.
    """

    step: Step = field(default_factory=Unit)
    margin: Margin = field(default_factory=OmegaMargin)
    accept_with: Accept = Accept.UPDATED
    temperature: float = 1.0
    tolerance: float = 1e-12  # signals are compared up to this: ratios of counts are rounded
    atomic: bool = True
    towards: Towards = Towards.NONE
    on_ties: bool = False
    every: int = 1
    reset: bool = False
    rebuild: int = REBUILD

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, not {self.temperature}")
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must not be negative, but is {self.tolerance}")
        if self.every < 1:
            raise ValueError(f"updates towards the truth come every 1 step or more, not every {self.every}")
        if self.towards is Towards.ALWAYS and self.step.needs_margin:
            raise ValueError(
                f"{type(self.step).__name__} needs a margin, and contrastive divergence has none: use Unit, Decaying "
                "or AdaGrad"
            )
