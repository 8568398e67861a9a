r"""Features that always occur together, trained as one: the same weights, in a fraction of the time.

In: a problem. Out: a smaller one, and the way between their weights. Stage: use.

If :math:`m` features are had by exactly the same tokens, their slopes are always equal, and with an L2 penalty so are
their weights at any minimum. One feature of value :math:`\sqrt m` and weight :math:`u=\sqrt m\,w` gives the same scores
and the same penalty, and L-BFGS takes the same steps. Words seen once bring dozens of such features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.potentials.linear import Design, Floats, Integers, Matrix, MatrixDesign

_MARKS = 20_110_711  # seed of the tokens' marks: any will do


@dataclass(frozen=True, eq=False)
class FeatureGroups:
    """Feature ``f`` belongs to group ``of[f]``, which has ``size[of[f]]`` members."""

    of: Integers
    size: Integers

    def narrow(self, weights: Floats) -> Floats:
        r"""``[features, width]`` to ``[groups, width]``: :math:`u=\sum w/\sqrt m`, which keeps all scores."""
        total = np.zeros((len(self.size), weights.shape[1]))
        np.add.at(total, self.of, weights)
        found: Floats = total / np.sqrt(self.size)[:, None]
        return found

    def widen(self, weights: Floats) -> Floats:
        """``[groups, width]`` to ``[features, width]``."""
        found: Floats = (weights / np.sqrt(self.size)[:, None])[self.of]
        return found


@dataclass(frozen=True, eq=False)
class Condensed:
    """A smaller problem with the same minimum."""

    problem: ChainProblem
    unary: FeatureGroups
    steps: FeatureGroups | None

    @staticmethod
    def of(problem: ChainProblem) -> Condensed:
        """Finds the groups, O(features of all tokens)."""
        unary, groups = condense(problem.unary)
        if problem.steps is None:
            return Condensed(replace(problem, unary=unary), groups, None)
        steps, step_groups = condense(problem.steps)
        return Condensed(replace(problem, unary=unary, steps=steps), groups, step_groups)

    def narrow(self, weights: ChainWeights) -> ChainWeights:
        """The weights for the smaller problem; equal scores."""
        found = self.problem.start()
        found.unary[...] = self.unary.narrow(weights.unary)
        pair = weights.pair
        if self.steps is not None:  # rows after those of steps are tables of links
            rows = len(self.steps.of)
            pair = np.concatenate([self.steps.narrow(pair[:rows]), pair[rows:]])
        found.pair[...] = pair
        return found

    def widen(self, weights: ChainWeights) -> ChainWeights:
        """The weights for the whole problem."""
        pair = weights.pair
        if self.steps is not None:
            rows = len(self.steps.size)
            pair = np.concatenate([self.steps.widen(pair[:rows]), pair[rows:]])
        unary = self.unary.widen(weights.unary)
        vector = np.concatenate([unary.reshape(-1), pair.reshape(-1)])
        return ChainWeights.of_vector(vector, len(unary), len(pair), weights.states)


def condense(design: Design) -> tuple[Design, FeatureGroups]:
    """Features by the sum of random 64-bit marks of the tokens that have them: equal sums, equal tokens.

    Different tokens have equal sums with probability 2^-64 a pair of features. Features with values stay as they are.
    """
    if isinstance(design, MatrixDesign) or len(design.rows.value):
        return design, FeatureGroups(np.arange(design.features), np.ones(design.features, dtype=np.int64))
    marks = np.random.default_rng(_MARKS).integers(0, 2**64, design.tokens.rows, dtype=np.uint64)
    sums = design.rows.transposed.sums(design.tokens.transposed.sums(marks))
    _, first, group, size = np.unique(sums, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)  # the frequent ones stay first
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    chosen = np.zeros(design.features, dtype=np.bool_)
    chosen[first] = True
    groups = FeatureGroups(number[group.reshape(-1)], size[order])
    rows = design.rows.only(chosen, groups.of)
    filled = np.diff(rows.start) > 0
    tokens = design.tokens.only(filled, np.cumsum(filled) - 1)
    rows = Matrix(np.append(rows.start[:-1][filled], rows.start[-1]), rows.index, rows.columns)
    return Design(tokens, rows.scaled(np.sqrt(groups.size.astype(np.float64)))), groups
