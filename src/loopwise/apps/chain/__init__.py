"""Linear-chain conditional random fields: a tagger of words with string features, chains of feature vectors."""

from loopwise.apps.chain.crf import ChainCRF
from loopwise.apps.chain.features.documents import Documents
from loopwise.apps.chain.features.templates import NAMES, SAMPLERANK
from loopwise.apps.chain.model import (
    ChainERM,
    ChainLearner,
    ChainLikelihood,
    ChainPerceptron,
    ChainSampleRank,
    ChainSVM,
)
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
    SoftLoss,
    SoftmaxMargin,
    TokenF1,
    TokenHamming,
    WeightedLikelihood,
)

__all__ = [
    "NAMES",
    "SAMPLERANK",
    "ChainCRF",
    "ChainDecoder",
    "ChainERM",
    "ChainLearner",
    "ChainLikelihood",
    "ChainPerceptron",
    "ChainSVM",
    "ChainSampleRank",
    "Documents",
    "EntityF1",
    "EntityFBeta",
    "Forbid",
    "Posterior",
    "RankedAnswer",
    "Skip",
    "SoftLoss",
    "SoftmaxMargin",
    "Tagger",
    "TaggingReport",
    "TokenF1",
    "TokenHamming",
    "Viterbi",
    "WeightedLikelihood",
]

__getattr__ = old_names(
    __name__,
    {
        "Decoder": "ChainDecoder",
        "ERM": "ChainERM",
        "Hamming": "TokenHamming",
        "Learner": "ChainLearner",
        "Likelihood": "ChainLikelihood",
        "Perceptron": "ChainPerceptron",
        "Ranked": "RankedAnswer",
        "Report": "TaggingReport",
        "SVM": "ChainSVM",
        "SampleRank": "ChainSampleRank",
    },
)
