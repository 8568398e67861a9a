"""Duplicates: which records of a table, or of two, mean the same thing."""

from loopwise.apps.dedupe.estimator import Dedupe, Training
from loopwise.apps.dedupe.kinds import Kind, guess_kind
from loopwise.apps.dedupe.labels import Answer, Labels
from loopwise.apps.dedupe.records import Records, read_records
from loopwise.apps.dedupe.report import Report
from loopwise.apps.dedupe.resolution import Reason, Resolution
from loopwise.apps.dedupe.synthetic import made_records

__all__ = [
    "Answer",
    "Dedupe",
    "Kind",
    "Labels",
    "Reason",
    "Records",
    "Report",
    "Resolution",
    "Training",
    "guess_kind",
    "made_records",
    "read_records",
]
