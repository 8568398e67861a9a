"""Sets of labels: a fully connected Markov random field over labels, given an input."""

from loopwise.apps.multilabel.data import LabelledData, read_labelled
from loopwise.apps.multilabel.estimator import MultiLabel
from loopwise.apps.multilabel.model import (
    LabelCD,
    LabelERM,
    LabelHybrid,
    LabelLearner,
    LabelLikelihood,
    LabelPCD,
    LabelPegasos,
    LabelPerceptron,
    LabelSampleRank,
    LabelSampleRankSVM,
    LabelSampleRankSVM1,
)
from loopwise.apps.multilabel.report import MultiLabelReport
from loopwise.lazy import old_names
from loopwise.learn.label_sets.decoding import Annealed, Automatic, ByBeliefs, Enumeration, LabelDecoder
from loopwise.learn.label_sets.maximise import Exactly, LinearProgram

__all__ = [
    "Annealed",
    "Automatic",
    "ByBeliefs",
    "Enumeration",
    "Exactly",
    "LabelCD",
    "LabelDecoder",
    "LabelERM",
    "LabelHybrid",
    "LabelLearner",
    "LabelLikelihood",
    "LabelPCD",
    "LabelPegasos",
    "LabelPerceptron",
    "LabelSampleRank",
    "LabelSampleRankSVM",
    "LabelSampleRankSVM1",
    "LabelledData",
    "LinearProgram",
    "MultiLabel",
    "MultiLabelReport",
    "read_labelled",
]

__getattr__ = old_names(
    __name__,
    {"Decoder": "LabelDecoder", "Learner": "LabelLearner", "Report": "MultiLabelReport"}
    | {
        name: f"Label{name}"
        for name in (
            *("CD", "ERM", "Hybrid", "Likelihood", "PCD", "Pegasos", "Perceptron"),
            *("SampleRank", "SampleRankSVM", "SampleRankSVM1"),
        )
    },
)
