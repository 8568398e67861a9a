"""Sets of labels: a fully connected Markov random field over labels, given an input."""

from loopwise.apps.multilabel.data import LabelledData, read_labelled
from loopwise.apps.multilabel.estimator import MultiLabel
from loopwise.apps.multilabel.model import (
    CD,
    ERM,
    PCD,
    Hybrid,
    Learner,
    Likelihood,
    Pegasos,
    Perceptron,
    SampleRank,
    SampleRankSVM,
    SampleRankSVM1,
)
from loopwise.apps.multilabel.report import Report
from loopwise.learn.label_sets.decoding import Annealed, Automatic, ByBeliefs, Decoder, Enumeration
from loopwise.learn.label_sets.maximise import Exactly, LinearProgram

__all__ = [
    "CD",
    "ERM",
    "PCD",
    "Annealed",
    "Automatic",
    "ByBeliefs",
    "Decoder",
    "Enumeration",
    "Exactly",
    "Hybrid",
    "LabelledData",
    "Learner",
    "Likelihood",
    "LinearProgram",
    "MultiLabel",
    "Pegasos",
    "Perceptron",
    "Report",
    "SampleRank",
    "SampleRankSVM",
    "SampleRankSVM1",
    "read_labelled",
]
