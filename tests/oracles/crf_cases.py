"""Sequences of numbers, and all their paths."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from loopwise.apps import ChainCRF
from loopwise.apps.chain.features.sequences import Sequences
from loopwise.apps.chain.features.text import Known
from loopwise.learn.chain.problem import ChainProblem

LENGTHS = (4, 1, 3, 2)


FEATURES, STATES = 2, 3


def small(seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, STATES, length) for length in LENGTHS]
    labels[0][:3] = [0, 1, 2]
    return [np.stack([row, row**2], 1) + rng.normal(0, 1.5, (len(row), FEATURES)) for row in labels], labels


class Oracle:
    """Scores of every label sequence of every sequence, by plain loops; the weights are those of ChainCRF."""

    def __init__(self, x: list[np.ndarray], y: list[np.ndarray]) -> None:
        self.x = [np.column_stack([part, np.ones(len(part))]) for part in x]
        self.y = y
        self.paths = [np.array(list(product(range(STATES), repeat=len(part)))) for part in x]

    def scores(self, theta: np.ndarray, number: int) -> np.ndarray:
        cut = (FEATURES + 1) * STATES
        unary, pair = theta[:cut].reshape(FEATURES + 1, STATES), theta[cut:].reshape(STATES, STATES)
        own = self.x[number] @ unary
        paths = self.paths[number]
        return own[np.arange(len(own)), paths].sum(1) + pair[paths[:, :-1], paths[:, 1:]].sum(1)

    def objective(self, theta: np.ndarray, l2: float, cost: Callable[[int], np.ndarray] = lambda number: 0.0) -> float:
        """Negative log-likelihood with the penalty; ``cost``: added to the scores in the sum over all paths."""
        total = 0.5 * l2 * float(theta @ theta)
        for number, gold in enumerate(self.y):
            scores = self.scores(theta, number)
            right = int(np.flatnonzero((self.paths[number] == gold).all(1))[0])
            total += float(logsumexp(scores + cost(number)) - scores[right])
        return total

    def distribution(self, theta: np.ndarray, number: int) -> np.ndarray:
        scores = self.scores(theta, number)
        return np.exp(scores - logsumexp(scores))


def fitted(**options: Any) -> tuple[ChainCRF, Oracle]:
    x, y = small()
    crf = ChainCRF(standardize=False, tolerance=1e-14, iterations=500, **options).fit(x, y)
    return crf, Oracle(x, y)


def problem_of(x: Any, y: list[np.ndarray]) -> ChainProblem:
    crf = ChainCRF(standardize=False, iterations=1).fit(x, y)
    return crf._problem(Sequences.of(x), Known(np.concatenate(y)), x)
