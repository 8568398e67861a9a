"""What a learner is, and what it tells while it works.

In: a problem with gold tags, weights to start from. Out: weights, a history. Stage: use.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.learn.history import Epoch, History
from loopwise.learn.progress import Tell

Score = Callable[[Weights], float]  # how good weights are on development data; larger is better


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
class Watch:
    """Hears of each round (epoch, iteration): keeps the history, the best weights on development data, the bar."""

    tell: Tell = field(default=lambda done, text: None)
    score: Score | None = None
    history: History = field(default_factory=History)
    best: Weights | None = None
    _since: float = field(default_factory=time.perf_counter)

    def round(self, loss: float, weights: Callable[[], Weights] | None = None) -> bool:
        """A round has ended; ``weights``, asked for only if there is development data, are those it would end with.

        True: end now.
        """
        now = time.perf_counter()
        number, reached = len(self.history.epochs) + 1, None
        if self.score is not None and weights is not None:
            made = weights()
            reached = self.score(made)
            others = [epoch.dev for epoch in self.history.epochs if epoch.dev is not None]
            if reached > max(others, default=float("-inf")):
                self.best, self.history.best = made, number
        self.history.epochs.append(Epoch(number, loss, now - self._since, dev=reached))
        said = f"round {number}, loss {loss:.5g}"
        self.tell(number, said if reached is None else f"{said}, development {reached:.4f}")
        self._since = time.perf_counter()
        return False
