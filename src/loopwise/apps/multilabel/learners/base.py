"""What a learner of label sets is, and what it tells while it works.

In: a problem, weights to start from. Out: weights, a history. Stage: use.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from loopwise.apps.multilabel.decoding import Decoder
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.weights import LabelWeights
from loopwise.learn.history import Epoch, History
from loopwise.learn.progress import Tell
from loopwise.walk.updates import Tally

Error = Callable[[LabelWeights], float]  # of development data: the share of labels that are wrong


class Learner(Protocol):
    """A strategy for choosing weights: a frozen dataclass of options."""

    @property
    def rounds(self) -> int:
        """How many times it will tell of its progress, at most."""
        ...

    @property
    def decoder(self) -> Decoder:
        """How a model that it trained decides, unless the user says."""
        ...

    def learn(self, problem: Problem, start: LabelWeights, watch: Watch, seed: int) -> LabelWeights:
        """Weights for the right labels of ``problem``; ``start`` is not changed."""
        ...


@dataclass
class Watch:
    """Hears of each round: keeps the history, the best weights on development data, the bar."""

    tell: Tell = field(default=lambda done, text: None)
    error: Error | None = None
    history: History = field(default_factory=History)
    best: LabelWeights | None = None
    tally: Tally | None = None  # of walks: what happened
    _since: float = field(default_factory=time.perf_counter)

    def round(self, loss: float, weights: Callable[[], LabelWeights]) -> None:
        """A round has ended; ``weights`` are those it would end with, asked for if there is development data."""
        seconds, number, reached = time.perf_counter() - self._since, len(self.history.epochs) + 1, None
        if self.error is not None:
            made = weights()
            reached = self.error(made)
            if reached < min(self.history.dev, default=float("inf")):
                self.best, self.history.best = made, number
        self.history.epochs.append(Epoch(number, loss, seconds, dev=reached))
        said = f"round {number}, loss {loss:.5g}"
        self.tell(number, said if reached is None else f"{said}, development error {reached:.4f}")
        self._since = time.perf_counter()


def check_positive(**numbers: float) -> None:
    """Refuses options that must be above 0."""
    for name, value in numbers.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be positive, not {value}")
