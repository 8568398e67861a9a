"""The likelihood of chains, compiled: value and gradient over a whole text.

In: a problem with gold tags. Out: :class:`NegativeLogLikelihood`, a function of weights. Stage: learning.
"""

from __future__ import annotations

import numpy as np

from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.potentials.linear import Floats, Integers


class NegativeLogLikelihood:
    r"""Value and gradient of :math:`\sum_i \log Z_i-\theta\cdot\phi(y_i)`: expected less observed features."""

    def __init__(self, problem: ChainProblem) -> None:
        self.problem = problem
        self._token = np.arange(problem.tokens)
        self._steps = problem.gold_counts()

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, gold = self.problem, self.problem.gold
        unary, pair = problem.scores(weights)
        known = problem.chains.marginals(unary, pair)
        value = known.log_z.sum() - unary[self._token, gold].sum() - np.vdot(self._steps, pair)
        known.single[self._token, gold] -= 1.0
        known.double[...] -= self._steps
        return float(value), problem.gradient(known.single, known.double)


def seen_places(problem: ChainProblem) -> Integers:
    """The weights that some gold tag has a use for: places in the vector of weights."""
    own = np.zeros((problem.tokens, problem.states))
    own[np.arange(problem.tokens), problem.gold] = 1.0
    return np.flatnonzero(problem.gradient(own, problem.gold_counts()) > 0)
