"""Sets of labels: a fully connected Markov random field over labels, given an input."""

from loopwise.apps.multilabel.data import LabelledData, read_labelled
from loopwise.apps.multilabel.estimator import MultiLabel
from loopwise.apps.multilabel.model import (
    CD,
    ERM,
    PCD,
    Hybrid,
    LabelLearner,
    Likelihood,
    Pegasos,
    Perceptron,
    SampleRank,
    SampleRankSVM,
    SampleRankSVM1,
)
from loopwise.apps.multilabel.report import MultiLabelReport
from loopwise.lazy import old_names
from loopwise.learn.label_sets.decoding import Annealed, Automatic, ByBeliefs, Enumeration, LabelDecoder
from loopwise.learn.label_sets.maximise import Exactly, LinearProgram

__all__ = [
    "CD",
    "ERM",
    "PCD",
    "Annealed",
    "Automatic",
    "ByBeliefs",
    "Enumeration",
    "Exactly",
    "Hybrid",
    "LabelDecoder",
    "LabelLearner",
    "LabelledData",
    "Likelihood",
    "LinearProgram",
    "MultiLabel",
    "MultiLabelReport",
    "Pegasos",
    "Perceptron",
    "SampleRank",
    "SampleRankSVM",
    "SampleRankSVM1",
    "read_labelled",
]

__getattr__ = old_names(__name__, {"Decoder": "LabelDecoder", "Learner": "LabelLearner", "Report": "MultiLabelReport"})
