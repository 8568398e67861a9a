"""Linear-chain conditional random fields on sequences of feature vectors."""

from loopwise.apps.chain_crf.estimator import ChainCRF
from loopwise.apps.chain_crf.losses import SoftmaxMargin, WeightedLikelihood

__all__ = ["ChainCRF", "SoftmaxMargin", "WeightedLikelihood"]
