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

    Where tags are known in part, :math:`\theta\cdot\phi(y_i)` is the log-sum over sequences that agree with what is
    known. Steps have to be told apart, which takes tokens x K^2 numbers more than the plain likelihood.
    """

    def __init__(self, problem: ChainProblem, counts: Floats) -> None:
        self.problem, self.counts = problem, counts
        self._each = np.repeat(counts, np.diff(problem.chains.start))  # [tokens]
        self._token = np.arange(problem.tokens)
        self._follows = np.flatnonzero(problem.chains.follows)

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, each = self.problem, self._each
        unary, pair = problem.scores(weights)
        found = problem.chains.marginals(unary, pair, each=True)
        if problem.allowed is not None:
            held = problem.chains.marginals(problem.held(unary), pair, each=True)
            value = self.counts @ (found.log_z - held.log_z)
            single, double = found.single - held.single, found.double - held.double
        else:
            token, gold, after = self._token, problem.gold, self._follows
            steps = after if len(pair) > 1 else np.zeros_like(after), gold[after - 1], gold[after]
            value = self.counts @ found.log_z - each @ unary[token, gold] - each[after] @ pair[steps]
            single, double = found.single, found.double
            single[token, gold] -= 1.0
            double[after, gold[after - 1], gold[after]] -= 1.0
        single, double = single * each[:, None], double * each[:, None, None]
        return float(value), problem.gradient(single, double if len(pair) > 1 else double.sum(0, keepdims=True))
