"""Learning: examples and roles, systems, their training, their evaluation and their files."""

from loopwise.learn.callbacks import CSVLog, TensorBoardLog
from loopwise.learn.data.batching import TotalSize
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.sampling import sample_examples, thirds
from loopwise.learn.data.template_examples import TemplateExamples
from loopwise.learn.evaluate import evaluate, risk, score_examples
from loopwise.learn.files.card import ModelCard, model_card
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.fit import fit
from loopwise.learn.history import Epoch, History
from loopwise.learn.objective import Objective
from loopwise.learn.prior_choice import choose_l2
from loopwise.learn.stages import Stage, hybrid, staged
from loopwise.learn.sweep import sweep
from loopwise.learn.system import System
from loopwise.learn.trainer import Limits, TrainingError, train

__all__ = [
    "CSVLog",
    "Epoch",
    "Examples",
    "History",
    "Ledger",
    "Limits",
    "ModelCard",
    "Objective",
    "Stage",
    "System",
    "TemplateExamples",
    "TensorBoardLog",
    "TotalSize",
    "TrainingError",
    "choose_l2",
    "evaluate",
    "fit",
    "hybrid",
    "model_card",
    "risk",
    "sample_examples",
    "score_examples",
    "staged",
    "sweep",
    "thirds",
    "train",
]
