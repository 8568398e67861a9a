"""Weights that learn from pairs: the plain form of :mod:`loopwise.walk.kernels.rules`, number for number.

In: feature differences and gains of the signal. Out: weights, and the sums for their average. Stage: walking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loopwise.walk.kernels.codes import MET
from loopwise.walk.learning.rules import LearningRule, Towards
from loopwise.walk.learning.steps import MIRA, AdaGrad, Decaying
from loopwise.walk.models.model import Sparse, dot, squared_norm

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """What happened in a walk. ``violated``: pairs whose margin was not met; ``active``: non-zero features of all
    updates together."""

    steps: int = 0
    moved: int = 0
    accepted: int = 0
    ranked: int = 0
    violated: int = 0
    updates: int = 0
    active: int = 0

    @property
    def active_per_update(self) -> float:
        """Mean number of non-zero features of an update."""
        return self.active / max(self.updates, 1)

    @property
    def violated_share(self) -> float:
        """The share of ranked pairs whose margin was not met."""
        return self.violated / max(self.ranked, 1)

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(mine + theirs for mine, theirs in zip(self.numbers, other.numbers, strict=True)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """In the order of :mod:`loopwise.walk.kernels.codes`."""
        return self.steps, self.moved, self.accepted, self.ranked, self.violated, self.updates, self.active


@dataclass
class WalkWeights:
    """Weights and what goes with them, as arrays; both engines start from one and give one back."""

    values: Floats
    sums: Floats
    squares: Floats  # of AdaGrad, else empty
    time: int = 0  # steps so far
    since: int = 0  # steps that the average leaves out

    @staticmethod
    def zeros(size: int, rule: LearningRule) -> WalkWeights:
        """Where learning begins."""
        squares = np.zeros(size if isinstance(rule.step, AdaGrad) else 0)
        return WalkWeights(np.zeros(size), np.zeros(size), squares)

    def copy(self) -> WalkWeights:
        return WalkWeights(self.values.copy(), self.sums.copy(), self.squares.copy(), self.time, self.since)

    def average(self) -> Floats:
        """The mean of the weights after each step since averaging began; the weights themselves before that."""
        steps = self.time - self.since
        return self.values - self.sums / steps if steps > 0 else self.values.copy()


@dataclass
class PlainLearning:
    """The weights as lists, which Python indexes fastest, and the updates."""

    rule: LearningRule
    weights: list[float]
    sums: list[float]
    squares: list[float]
    time: int
    since: int
    tally: list[int] = field(default_factory=lambda: [0] * 7)

    @staticmethod
    def of(rule: LearningRule, weights: WalkWeights) -> PlainLearning:
        """Goes on from ``weights``."""
        return PlainLearning(
            rule,
            weights.values.tolist(),
            weights.sums.tolist(),
            weights.squares.tolist(),
            weights.time,
            weights.since,
        )

    def result(self) -> WalkWeights:
        """The weights as arrays."""
        return WalkWeights(np.array(self.weights), np.array(self.sums), np.array(self.squares), self.time, self.since)

    def rank(self, delta: Sparse, gain: float) -> tuple[float, float]:
        """The atomic update; the score of ``delta`` before it and after it."""
        rule, score = self.rule, dot(delta, self.weights)
        if abs(gain) <= rule.tolerance:
            return score, score
        self.tally[3] += 1
        sign = 1.0 if gain > 0.0 else -1.0
        margin = rule.margin(abs(gain))
        if not margin - sign * score > MET * margin:
            return score, score
        self.tally[4] += 1
        norm = squared_norm(delta)
        if norm == 0.0:
            return score, score
        eta = self._step(delta, sign, margin - sign * score, norm)
        if eta is None:
            return score, dot(delta, self.weights)
        return score, score + sign * eta * norm

    def towards_truth(self, truth: Sparse, gap: float) -> None:
        """An update along ``truth``, the features of the truth less those of the state."""
        rule, norm, shortfall = self.rule, squared_norm(truth), 0.0
        if rule.towards is Towards.MARGIN:
            if gap <= rule.tolerance:
                return
            self.tally[3] += 1
            margin = rule.margin(gap)
            shortfall = margin - dot(truth, self.weights)
            if not shortfall > MET * margin:
                return
            self.tally[4] += 1
        if norm > 0.0:
            self._step(truth, 1.0, shortfall, norm)

    def step(self, delta: Sparse) -> None:
        """A step along ``delta``, whatever its score."""
        norm = squared_norm(delta)
        if norm > 0.0:
            self._step(delta, 1.0, 0.0, norm)

    def _step(self, delta: Sparse, sign: float, shortfall: float, norm: float) -> float | None:
        """Adds the step along ``sign * delta``; its factor, or None where each weight has its own."""
        step, lag = self.rule.step, float(max(self.time - 1 - self.since, 0))
        rate, cap, floor = step.numbers
        self.tally[5] += 1
        self.tally[6] += sum(value != 0.0 for value in delta.values())
        if isinstance(step, AdaGrad):
            for key, value in delta.items():
                slope = sign * value
                if slope != 0.0:
                    self.squares[key] += slope * slope
                    self._add(key, rate * slope / (math.sqrt(self.squares[key]) + floor), lag)
            return None
        eta = rate
        if isinstance(step, Decaying):
            eta = rate / math.sqrt(float(self.time))
        elif isinstance(step, MIRA):
            eta = min(cap, shortfall / norm)
        scale = sign * eta
        for key, value in delta.items():
            self._add(key, scale * value, lag)
        return eta

    def _add(self, key: int, change: float, lag: float) -> None:
        self.weights[key] += change
        self.sums[key] += lag * change
