"""The likelihood of chains of which each counts by a weight of its own.

In: a problem with gold tags, a weight for each chain. Out: :class:`WeightedChains`, a function of weights. Stage:
learning.
"""

from __future__ import annotations

import numpy as np

from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.potentials.linear import Floats


class WeightedChains:
    r"""Value and gradient of :math:`\sum_i c_i\,(\log Z_i-\theta\cdot\phi(y_i))`, ``counts`` :math:`c` ``[chains]``.

    Steps have to be told apart, which takes tokens x K^2 numbers more than the plain likelihood.
    """

    def __init__(self, problem: ChainProblem, counts: Floats) -> None:
        self.problem, self.counts = problem, counts
        self._each = np.repeat(counts, np.diff(problem.chains.start))  # [tokens]
        self._token = np.arange(problem.tokens)
        follows = np.flatnonzero(problem.chains.follows)
        self._steps = np.zeros((problem.tokens, problem.states, problem.states))
        self._steps[follows, problem.gold[follows - 1], problem.gold[follows]] = self._each[follows]

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, gold, each = self.problem, self.problem.gold, self._each
        unary, pair = problem.scores(weights)
        known = problem.chains.marginals(unary, pair, each=True)
        value = self.counts @ known.log_z - each @ unary[self._token, gold] - (self._steps * pair).sum()
        single = known.single * each[:, None]
        single[self._token, gold] -= each
        double = known.double * each[:, None, None] - self._steps
        return float(value), problem.gradient(single, double if len(pair) > 1 else double.sum(0, keepdims=True))
