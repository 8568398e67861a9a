"""A tagger of words: linear-chain conditional random fields with string features."""

from loopwise.apps.tagger.decoding import Decoder, Posterior, Viterbi
from loopwise.apps.tagger.estimator import Tagger
from loopwise.apps.tagger.learners import ERM, SVM, Learner, Likelihood, Perceptron, SampleRank
from loopwise.apps.tagger.report import Report
from loopwise.apps.tagger.soft_losses import EntityF1, Hamming, SoftLoss, TokenF1
from loopwise.apps.tagger.templates import NAMES, SAMPLERANK

__all__ = [
    "ERM",
    "NAMES",
    "SAMPLERANK",
    "SVM",
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
    "Tagger",
    "TokenF1",
    "Viterbi",
]
