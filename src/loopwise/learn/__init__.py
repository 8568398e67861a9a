"""Learning: examples and roles, systems, their evaluation and their files."""

from loopwise.learn.evaluate import evaluate, risk, score_examples
from loopwise.learn.examples import Examples
from loopwise.learn.sampling import sample_examples, thirds
from loopwise.learn.system import System

__all__ = ["Examples", "System", "evaluate", "risk", "sample_examples", "score_examples", "thirds"]
