"""Measuring one way of doing a thing against another, on the user's own model. Above the stages."""

from loopwise.compare.gradients import compare_gradients

__all__ = ["compare_gradients"]
