"""Chains of feature vectors by the path that they had before they shared a folder with the tagger."""

from loopwise.apps.chain import ChainCRF, SoftmaxMargin, WeightedLikelihood

__all__ = ["ChainCRF", "SoftmaxMargin", "WeightedLikelihood"]
