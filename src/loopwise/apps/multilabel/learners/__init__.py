"""Ways to train a model of label sets: one file a family."""

from loopwise.apps.multilabel.learners.base import Learner, Watch
from loopwise.apps.multilabel.learners.descent import ERM, Likelihood
from loopwise.apps.multilabel.learners.pegasos import Pegasos
from loopwise.apps.multilabel.learners.perceptron import Perceptron
from loopwise.apps.multilabel.learners.relaxation import Exactly, LinearProgram
from loopwise.apps.multilabel.learners.walks import CD, PCD, Hybrid, SampleRank, SampleRankSVM, SampleRankSVM1

__all__ = [
    "CD",
    "ERM",
    "PCD",
    "Exactly",
    "Hybrid",
    "Learner",
    "Likelihood",
    "LinearProgram",
    "Pegasos",
    "Perceptron",
    "SampleRank",
    "SampleRankSVM",
    "SampleRankSVM1",
    "Watch",
]
