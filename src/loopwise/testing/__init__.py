"""Contract checks, shipped so that a user's own plug-ins can be put through them.

Above the stages; nothing of the library imports this.
"""

from loopwise.testing.factors import check_factor
from loopwise.testing.gradients import GradientCheck, check_gradient, check_hvp, random_loss
from loopwise.testing.inference import check_inference
from loopwise.testing.walk import Transitions, check_walk, transitions

__all__ = [
    "GradientCheck",
    "Transitions",
    "check_factor",
    "check_gradient",
    "check_hvp",
    "check_inference",
    "check_walk",
    "random_loss",
    "transitions",
]
