"""What a learner of label sets is, and what it tells while it works.

In: a problem, weights to start from. Out: weights, a history. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from loopwise.apps.multilabel.decoding import Decoder
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.weights import LabelWeights
from loopwise.apps.watch import Rounds
from loopwise.walk.updates import Tally


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
class Watch(Rounds[LabelWeights]):
    """Hears of each round: keeps the history, the weights with the least error on development data, the bar."""

    larger_is_better: ClassVar[bool] = False
    measured: ClassVar[str] = "development error"

    tally: Tally | None = None  # of walks: what happened


def check_positive(**numbers: float) -> None:
    """Refuses options that must be above 0."""
    for name, value in numbers.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be positive, not {value}")
