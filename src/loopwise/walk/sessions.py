"""What an engine does for a learner: walk over given documents, and remember where each walk ended.

In: visits. Out: weights, best states, counts. Stage: walking.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.walk.cooling import Cooling
from loopwise.walk.learning.rules import LearningRule
from loopwise.walk.learning.updates import Tally, WalkWeights
from loopwise.walk.world import Start

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Visiting:
    """One walk: the document's number, how many steps, where it begins (None: where the last one ended), its stream."""

    document: int
    steps: int
    start: Start | None
    stream: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The result of one search: the best state and its score, computed afresh; counts of events in each half."""

    labels: list[int]
    score: float
    accepted: float  # share of the steps
    counts: Integers  # [2, cells], empty unless samples were wanted


@dataclass(frozen=True)
class Searching:
    """How a walk that does not learn goes: its temperatures, steps between evaluations from scratch, what it counts."""

    cooling: Cooling
    rescore: int
    sampling: Sampling | None = None


@dataclass(frozen=True)
class Sampling:
    """Which states of a walk are counted: ``samples`` (an even number), ``thinning`` steps apart after ``burn_in``."""

    burn_in: int
    thinning: int
    samples: int

    def number(self, step: int) -> int:
        """Number of the sample that is due after a step, or -1."""
        past = step + 1 - self.burn_in
        if past <= 0 or past % self.thinning:
            return -1
        number = past // self.thinning - 1
        return number if number < self.samples else -1


Trace = list[tuple[int, int, int, bool]]  # item, old, new, accepted


class WalkSession(ABC):
    """Documents ready to be walked over."""

    trace: Trace | None = None  # give it a list to be told

    @abstractmethod
    def learn(
        self, rule: LearningRule, weights: WalkWeights, visits: Sequence[Visiting], seed: int
    ) -> tuple[WalkWeights, Tally]:
        """Walks and learns; ``weights`` are left as they are."""

    @abstractmethod
    def search(self, weights: Floats, visits: Sequence[Visiting], how: Searching, seed: int) -> list[SearchResult]:
        """Walks without learning."""

    @abstractmethod
    def states(self) -> list[list[int] | None]:
        """Where the last walk over each document ended."""

    @abstractmethod
    def set_states(self, states: Sequence[list[int] | None]) -> None:
        """Says where the next walks may go on."""
