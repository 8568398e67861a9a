r"""Features of the truth less those of an answer, which may be fractional, added to weights.

In: one example's input, right labels, an answer. Out: changed weights. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.weights import Floats, LabelWeights


@dataclass(frozen=True, eq=False)
class Example:
    """One example: its input as numbers of features with values, its right labels."""

    index: NDArray[np.integer]
    value: Floats
    gold: Floats  # [labels]

    @staticmethod
    def of(problem: Problem, number: int) -> Example:
        """An example by its number."""
        rows = problem.rows
        first, end = rows.indptr[number], rows.indptr[number + 1]
        return Example(rows.indices[first:end], rows.data[first:end], problem.gold[number].astype(np.float64))

    def fields(self, weights: LabelWeights, scale: float = 1.0) -> Floats:
        """The fields of the labels under ``scale`` times the weights."""
        rows = weights.unary[:, self.index]
        slope: Floats = (rows[:, :, 1] - rows[:, :, 0]) @ self.value
        return scale * (slope + weights.pull)

    def add_difference(self, weights: LabelWeights, answer: Floats, both: Floats, amount: float) -> None:
        r"""Adds ``amount`` times :math:`\phi(y^*)-\phi(\mu)`; ``answer`` :math:`\mu_i` and ``both``
        :math:`\mu_{ij}(1,1)`."""
        wrong = np.flatnonzero(self.gold != answer)
        change = amount * (self.gold - answer)[wrong, None] * self.value
        weights.unary[wrong[:, None], self.index, 1] += change
        weights.unary[wrong[:, None], self.index, 0] -= change
        weights.pair[:] += amount * (pair_cells(self.gold, together(self.gold)) - pair_cells(answer, both))


def together(labels: Floats) -> Floats:
    """For each pair whether both labels are on."""
    first, second = np.triu_indices(len(labels), 1)
    return labels[first] * labels[second]


def pair_cells(single: Floats, both: Floats) -> Floats:
    """The table of each pair, ``[pairs, 2, 2]``, from the shares of each label and of both together."""
    first, second = np.triu_indices(len(single), 1)
    one, other = single[first], single[second]
    return np.stack([1 - one - other + both, other - both, one - both, both], axis=1).reshape(-1, 2, 2)
