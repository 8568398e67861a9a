"""Sets of labels: a fully connected Markov random field over labels, given an input."""

from loopwise.apps.multilabel.data import LabelledData, read_labelled
from loopwise.apps.multilabel.decoding import Annealed, Automatic, ByBeliefs, Decoder, Enumeration
from loopwise.apps.multilabel.estimator import MultiLabel
from loopwise.apps.multilabel.learners import (
    CD,
    ERM,
    PCD,
    Exactly,
    Hybrid,
    Learner,
    Likelihood,
    LinearProgram,
    Pegasos,
    Perceptron,
    SampleRank,
    SampleRankSVM,
    SampleRankSVM1,
)
from loopwise.apps.multilabel.report import Report

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
