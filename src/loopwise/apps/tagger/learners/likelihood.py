"""Maximum conditional likelihood with an L2 penalty: the CRF as it is usually trained (Lafferty et al. 2001).

In: a problem. Out: weights. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loopwise.apps.tagger.chains import Floats
from loopwise.apps.tagger.condensing import Condensed
from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.learners.descent import minimise
from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.apps.tagger.text import Integers


@dataclass(frozen=True)
class Likelihood:
    r"""Minimises :math:`-\sum_i\log p(y_i\mid x_i)+\frac{\lambda}{2}|w|^2`, convex, by L-BFGS.

    ``l2``: :math:`\lambda` (twice what crfsuite calls ``c2``). ``tolerance``: stop when an iteration changes the value
    by less than this share. ``memory``: pairs of differences that L-BFGS keeps. ``seen_only``: features and steps have
    weights only with tags they occur with in training (what crfsuite does by default); the others stay zero, so nothing
    is learnt from what is never seen together. An iteration costs one forward-backward pass,
    O(tokens x (features + K) x K).
    """

    l2: float = 1.0
    iterations: int = 200
    tolerance: float = 1e-6
    memory: int = 6
    seen_only: bool = False

    def __post_init__(self) -> None:
        check_descent(self.l2, self.iterations)

    @property
    def rounds(self) -> int:
        return self.iterations

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        small = Condensed.of(problem)
        found = minimise(
            NegativeLogLikelihood(small.problem),
            small.narrow(start),
            watch,
            l2=self.l2,
            iterations=self.iterations,
            tolerance=self.tolerance,
            memory=self.memory,
            threads=problem.chains.threads,
            free=seen_places(small.problem) if self.seen_only else None,
        )
        return small.widen(found)


class NegativeLogLikelihood:
    r"""Value and gradient of :math:`\sum_i \log Z_i-\theta\cdot\phi(y_i)`: expected less observed features."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._token = np.arange(problem.tokens)
        self._steps = problem.gold_counts()

    def __call__(self, weights: Weights) -> tuple[float, Floats]:
        problem, gold = self.problem, self.problem.gold
        unary, pair = problem.scores(weights)
        known = problem.chains.marginals(unary, pair)
        value = known.log_z.sum() - unary[self._token, gold].sum() - np.vdot(self._steps, pair)
        known.single[self._token, gold] -= 1.0
        known.double[...] -= self._steps
        return float(value), problem.gradient(known.single, known.double)


def seen_places(problem: Problem) -> Integers:
    """The weights that some gold tag has a use for: places in the vector of weights."""
    own = np.zeros((problem.tokens, problem.states))
    own[np.arange(problem.tokens), problem.gold] = 1.0
    return np.flatnonzero(problem.gradient(own, problem.gold_counts()) > 0)


def check_descent(l2: float, iterations: int) -> None:
    """Refuses options without meaning."""
    if not 0.0 <= l2 < np.inf:
        raise ValueError(f"l2 must be a finite number, at least 0, not {l2}")
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
