"""Linear-chain conditional random fields: a tagger of words with string features, chains of feature vectors."""

from loopwise.apps.chain.crf import ChainCRF
from loopwise.apps.chain.features.documents import Documents
from loopwise.apps.chain.features.templates import NAMES, SAMPLERANK
from loopwise.apps.chain.model import ERM, SVM, ChainLearner, Likelihood, Perceptron, SampleRank
from loopwise.apps.chain.report import TaggingReport
from loopwise.apps.chain.skip import Skip
from loopwise.apps.chain.tagger import Tagger
from loopwise.apps.partial import RankedAnswer
from loopwise.decode.chains import ChainDecoder, Posterior, Viterbi
from loopwise.decode.rules import Forbid
from loopwise.lazy import old_names
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
    "ChainDecoder",
    "ChainLearner",
    "Documents",
    "EntityF1",
    "EntityFBeta",
    "Forbid",
    "Hamming",
    "Likelihood",
    "Perceptron",
    "Posterior",
    "RankedAnswer",
    "SampleRank",
    "Skip",
    "SoftLoss",
    "SoftmaxMargin",
    "Tagger",
    "TaggingReport",
    "TokenF1",
    "Viterbi",
    "WeightedLikelihood",
]

__getattr__ = old_names(
    __name__,
    {"Decoder": "ChainDecoder", "Learner": "ChainLearner", "Ranked": "RankedAnswer", "Report": "TaggingReport"},
)
