"""What a learner is, and what it tells while it works.

In: a problem with gold tags, weights to start from. Out: weights, a history. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.apps.watch import Rounds


class Learner(Protocol):
    """A strategy for choosing weights: a frozen dataclass of options with this method."""

    @property
    def rounds(self) -> int:
        """How many times it will tell of its progress, at most."""
        ...

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        """Weights for the gold tags of ``problem``; ``start`` is not changed."""
        ...


@dataclass
class Watch(Rounds[Weights]):
    """Hears of each round (epoch, iteration): keeps the history, the best weights on development data, the bar."""
