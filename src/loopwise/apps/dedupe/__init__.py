"""Duplicates: which records of a table, or of two, mean the same thing."""

from loopwise.apps.dedupe.estimator import Dedupe, DedupeTraining
from loopwise.apps.dedupe.kinds import Kind, guess_kind
from loopwise.apps.dedupe.labels import Labels, PairAnswer
from loopwise.apps.dedupe.records import Records, read_records
from loopwise.apps.dedupe.report import DedupeReport
from loopwise.apps.dedupe.resolution import Reason, Resolution
from loopwise.apps.dedupe.synthetic import made_records
from loopwise.lazy import old_names

__all__ = [
    "Dedupe",
    "DedupeReport",
    "DedupeTraining",
    "Kind",
    "Labels",
    "PairAnswer",
    "Reason",
    "Records",
    "Resolution",
    "guess_kind",
    "made_records",
    "read_records",
]

__getattr__ = old_names(__name__, {"Answer": "PairAnswer", "Report": "DedupeReport", "Training": "DedupeTraining"})
