"""Linear-chain conditional random fields: a tagger of words with string features, chains of feature vectors."""

from loopwise.apps.chain.crf import ChainCRF
from loopwise.apps.chain.features.documents import Documents
from loopwise.apps.chain.features.templates import NAMES, SAMPLERANK
from loopwise.apps.chain.model import ERM, SVM, Learner, Likelihood, Perceptron, SampleRank
from loopwise.apps.chain.report import Report
from loopwise.apps.chain.skip import Skip
from loopwise.apps.chain.tagger import Tagger
from loopwise.apps.partial import Ranked
from loopwise.decode.chains import Decoder, Posterior, Viterbi
from loopwise.decode.rules import Forbid
from loopwise.loss.chains import (
    EntityF1,
    EntityFBeta,
    Hamming,
    SoftLoss,
    SoftmaxMargin,
    TokenF1,
    WeightedLikelihood,
)

__all__ = [
    "ERM",
    "NAMES",
    "SAMPLERANK",
    "SVM",
    "ChainCRF",
    "Decoder",
    "Documents",
    "EntityF1",
    "EntityFBeta",
    "Forbid",
    "Hamming",
    "Learner",
    "Likelihood",
    "Perceptron",
    "Posterior",
    "Ranked",
    "Report",
    "SampleRank",
    "Skip",
    "SoftLoss",
    "SoftmaxMargin",
    "Tagger",
    "TokenF1",
    "Viterbi",
    "WeightedLikelihood",
]
