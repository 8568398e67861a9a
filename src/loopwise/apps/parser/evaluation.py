"""Scores of trees by the path that they had before every app was made of model, features, estimator and report."""

from loopwise.apps.parser.report import AttachmentScores as AttachmentScores
from loopwise.apps.parser.report import by_length as by_length
from loopwise.apps.parser.report import score as score
from loopwise.apps.parser.report import sentence_counts as sentence_counts
from loopwise.lazy import moved_module

moved_module(__name__, "loopwise.apps.parser.report")
