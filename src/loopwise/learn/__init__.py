"""Learning: examples and roles, systems, their training, their evaluation and their files."""

from loopwise.learn.batching import TotalSize
from loopwise.learn.evaluate import evaluate, risk, score_examples
from loopwise.learn.examples import Examples
from loopwise.learn.fit import fit
from loopwise.learn.history import Epoch, History
from loopwise.learn.sampling import sample_examples, thirds
from loopwise.learn.stages import Stage, hybrid, staged
from loopwise.learn.sweep import sweep
from loopwise.learn.system import System
from loopwise.learn.template_examples import TemplateExamples
from loopwise.learn.training import TrainingError

__all__ = [
    "Epoch",
    "Examples",
    "History",
    "Stage",
    "System",
    "TemplateExamples",
    "TotalSize",
    "TrainingError",
    "evaluate",
    "fit",
    "hybrid",
    "risk",
    "sample_examples",
    "score_examples",
    "staged",
    "sweep",
    "thirds",
]
