"""Being written."""

from __future__ import annotations

from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.counting import CountingNumbers


def implicit_beliefs(method: Inference, problem: Problem, numbers: CountingNumbers | None) -> Beliefs:
    raise NotImplementedError
