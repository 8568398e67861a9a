"""Decoders: from beliefs to a decision, soft in training and hard in testing."""

from loopwise.decode.approximate_f import ApproximateF, SoftApproximateF
from loopwise.decode.base import BeliefDecoder
from loopwise.decode.configurations import Configurations, draw, k_best
from loopwise.decode.factor_vote import FactorVote
from loopwise.decode.mbr import MBR
from loopwise.decode.pointwise import Identity, Max, SoftArgmax
from loopwise.decode.samples import Drawn, Independent, Joint, one_by_one
from loopwise.decode.temperature import Geometric, Linear, Listed, TemperatureSchedule, Trained
from loopwise.decode.threshold import Fixed, LeastExpectedLoss, PerCorpus, PerExample, Threshold
from loopwise.inference.decision import Decision
from loopwise.lazy import old_names

__all__ = [
    "MBR",
    "ApproximateF",
    "BeliefDecoder",
    "Configurations",
    "Decision",
    "Drawn",
    "FactorVote",
    "Fixed",
    "Geometric",
    "Identity",
    "Independent",
    "Joint",
    "LeastExpectedLoss",
    "Linear",
    "Listed",
    "Max",
    "PerCorpus",
    "PerExample",
    "SoftApproximateF",
    "SoftArgmax",
    "TemperatureSchedule",
    "Threshold",
    "Trained",
    "draw",
    "k_best",
    "one_by_one",
]

__getattr__ = old_names(__name__, {"Decoder": "BeliefDecoder", "Schedule": "TemperatureSchedule"})
