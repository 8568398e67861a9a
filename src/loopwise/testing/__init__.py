"""Contract checks, shipped so that a user's own plug-ins can be put through them.

Above the stages; nothing of the library imports this.
"""

from loopwise.testing.gradients import GradientCheck, check_gradient, check_hvp, random_loss
from loopwise.testing.inference import check_inference

__all__ = ["GradientCheck", "check_gradient", "check_hvp", "check_inference", "random_loss"]
