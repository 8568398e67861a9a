"""Linear-chain conditional random fields: a tagger of words with string features, chains of feature vectors."""

from loopwise.apps.chain.estimator import ChainCRF, Tagger
from loopwise.apps.chain.features.templates import NAMES, SAMPLERANK
from loopwise.apps.chain.model import ERM, SVM, Learner, Likelihood, Perceptron, SampleRank
from loopwise.apps.chain.report import Report
from loopwise.decode.chains import Decoder, Posterior, Viterbi
from loopwise.loss.chains import EntityF1, Hamming, SoftLoss, SoftmaxMargin, TokenF1, WeightedLikelihood

__all__ = [
    "ERM",
    "NAMES",
    "SAMPLERANK",
    "SVM",
    "ChainCRF",
    "Decoder",
    "EntityF1",
    "Hamming",
    "Learner",
    "Likelihood",
    "Perceptron",
    "Posterior",
    "Report",
    "SampleRank",
    "SoftLoss",
    "SoftmaxMargin",
    "Tagger",
    "TokenF1",
    "Viterbi",
    "WeightedLikelihood",
]
