"""The likelihood of chains, compiled: value and gradient over a whole text.

In: a problem with gold tags. Out: :class:`NegativeLogLikelihood`, a function of weights. Stage: learning.
"""

from __future__ import annotations

import numpy as np

from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.potentials.linear import Floats, Integers


class NegativeLogLikelihood:
    r"""Value and gradient of :math:`\sum_i \log Z_i-\theta\cdot\phi(y_i)`: expected less observed features.

    Where tags are known in part, of :math:`\sum_i \log Z_i-\log Z_i(A_i)`, the second over sequences :math:`A_i` that
    agree with what is known: expected less features expected there.
    """

    def __init__(self, problem: ChainProblem) -> None:
        self.problem = problem
        self._token = np.arange(problem.tokens)
        if problem.allowed is None:
            self._steps = problem.gold_counts()
            self._taken = self._steps > 0

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, gold = self.problem, self.problem.gold
        unary, pair = problem.scores(weights)
        known = problem.chains.marginals(unary, pair)
        if problem.allowed is not None:
            held = problem.chains.marginals(problem.held(unary), pair)
            value = (known.log_z - held.log_z).sum()
            return float(value), problem.gradient(known.single - held.single, known.double - held.double)
        steps = np.vdot(self._steps[self._taken], pair[self._taken])
        value = known.log_z.sum() - unary[self._token, gold].sum() - steps
        known.single[self._token, gold] -= 1.0
        known.double[...] -= self._steps
        return float(value), problem.gradient(known.single, known.double)


def seen_places(problem: ChainProblem) -> Integers:
    """The weights that some gold tag, or one that a token may have, has a use for: places in the vector of weights."""
    if problem.allowed is None:
        own = np.zeros((problem.tokens, problem.states))
        own[np.arange(problem.tokens), problem.gold] = 1.0
        steps = problem.gold_counts()
    else:
        own = problem.allowed.astype(np.float64)
        steps = np.zeros((problem.tokens, problem.states, problem.states))
        steps[1:] = problem.allowed[:-1, :, None] & problem.allowed[1:, None, :]
        steps[~problem.chains.follows] = 0.0
        steps = steps.sum(axis=0, keepdims=True) if problem.steps is None else steps
    return np.flatnonzero(problem.gradient(own, steps) > 0)
