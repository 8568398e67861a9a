"""Ways to choose the weights of a chain model."""

from loopwise.apps.tagger.learners.base import Learner, Watch
from loopwise.apps.tagger.learners.likelihood import Likelihood
from loopwise.apps.tagger.learners.perceptron import Perceptron
from loopwise.apps.tagger.learners.risk import ERM
from loopwise.apps.tagger.learners.sample_rank import SampleRank
from loopwise.apps.tagger.learners.svm import SVM

__all__ = ["ERM", "SVM", "Learner", "Likelihood", "Perceptron", "SampleRank", "Watch"]
