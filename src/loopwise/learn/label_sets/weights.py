r"""The weights of a model of label sets, and the two forms in which its scores are used.

In: weights, inputs. Out: fields and couplings, or tables. Stage: learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def pair_count(labels: int) -> int:
    """Pairs of labels."""
    return labels * (labels - 1) // 2


def pair_numbers(labels: int) -> Integers:
    """Number of each pair ``[labels, labels]``, in the order of ``lw.graph.complete``; the diagonal means nothing."""
    numbers = np.zeros((labels, labels), dtype=np.int64)
    first, second = np.triu_indices(labels, 1)
    numbers[first, second] = numbers[second, first] = np.arange(len(first))
    return numbers


@dataclass(frozen=True, eq=False)
class LabelWeights:
    r"""Of :math:`\theta\cdot\phi(y,x)=\sum_i\theta_{i,y_i}\cdot x+\sum_{i<j}\theta_{ij}(y_i,y_j)`.

    ``unary`` is ``[labels, features, 2]``, ``pair`` ``[pairs, 2, 2]``; both are views of ``vector``.
    """

    vector: Floats
    unary: Floats
    pair: Floats

    @staticmethod
    def of_vector(vector: Floats, labels: int, features: int) -> LabelWeights:
        """The weights in one vector: unary ones, then pairs."""
        size = 2 * labels * features
        expected = size + 4 * pair_count(labels)
        if vector.shape != (expected,):
            raise ValueError(
                f"{vector.shape} weights do not fit {labels} labels and {features} features: {expected} do"
            )
        return LabelWeights(
            vector, vector[:size].reshape(labels, features, 2), vector[size:].reshape(pair_count(labels), 2, 2)
        )

    @staticmethod
    def zeros(labels: int, features: int) -> LabelWeights:
        """Where training begins."""
        return LabelWeights.of_vector(np.zeros(2 * labels * features + 4 * pair_count(labels)), labels, features)

    def like(self, vector: Floats) -> LabelWeights:
        """Other weights of the same model."""
        return LabelWeights.of_vector(vector, self.labels, self.features)

    def tensors(self) -> dict[str, Tensor]:
        """As files have them."""
        return {"unary": torch.from_numpy(self.unary), "pair": torch.from_numpy(self.pair)}

    @property
    def labels(self) -> int:
        return len(self.unary)

    @property
    def features(self) -> int:
        return int(self.unary.shape[1])

    def singles(self, inputs: Any) -> Floats:
        """Scores of both values of each label from the input alone, ``[examples, labels, 2]``."""
        table = self.unary.transpose(1, 0, 2).reshape(self.features, -1)
        scores: Floats = np.asarray(inputs @ table, dtype=np.float64)
        return scores.reshape(-1, self.labels, 2)

    def fields(self, inputs: Any) -> Floats:
        r"""The :math:`a` of :math:`\theta\cdot\phi(y,x)=a\cdot y+\frac12 y\cdot By+\text{const}`, a row an example."""
        slope: Floats = np.asarray(inputs @ (self.unary[:, :, 1] - self.unary[:, :, 0]).T, dtype=np.float64)
        return slope + self.pull

    @property
    def pull(self) -> Floats:
        """What pairs add to the fields, ``[labels]``: of each label's being on while all others are off."""
        first, second = np.triu_indices(self.labels, 1)
        added = np.zeros(self.labels)
        np.add.at(added, first, self.pair[:, 1, 0] - self.pair[:, 0, 0])
        np.add.at(added, second, self.pair[:, 0, 1] - self.pair[:, 0, 0])
        return added

    @property
    def couplings(self) -> Floats:
        """The symmetric :math:`B` ``[labels, labels]``: what two labels gain by being on together."""
        table = np.zeros((self.labels, self.labels))
        first, second = np.triu_indices(self.labels, 1)
        table[first, second] = self.pair[:, 1, 1] - self.pair[:, 1, 0] - self.pair[:, 0, 1] + self.pair[:, 0, 0]
        return table + table.T

    def given(self, sets: Integers) -> LabelWeights:
        """The same for examples whose labels are given in part: 0, 1, or -1 where not, ``[examples, labels]``."""
        return GivenLabels(self.vector, self.unary, self.pair, sets)

    def score(self, inputs: Any, sets: Integers) -> Floats:
        """The score of one set of labels an example, from its definition."""
        singles = np.take_along_axis(self.singles(inputs), sets[:, :, None], axis=2)[:, :, 0].sum(axis=1)
        first, second = np.triu_indices(self.labels, 1)
        total: Floats = singles + self.pair[np.arange(len(first)), sets[:, first], sets[:, second]].sum(axis=1)
        return total


@dataclass(frozen=True, eq=False)
class GivenLabels(LabelWeights):
    """Weights under which examples have the labels ``sets`` where these are 0 or 1: nothing else is worth having."""

    sets: Integers  # [examples, labels]

    def singles(self, inputs: Any) -> Floats:
        scores = super().singles(inputs)
        scores[..., 0][self.sets == 1] -= self._worth(scores)
        scores[..., 1][self.sets == 0] -= self._worth(scores)
        return scores

    def fields(self, inputs: Any) -> Floats:
        slope = super().fields(inputs)
        worth = self._worth(slope)
        return slope + np.where(self.sets == 1, worth, 0.0) - np.where(self.sets == 0, worth, 0.0)

    def _worth(self, scores: Floats) -> float:
        """More than everything else together, and so much that exp of it is nothing."""
        return 800.0 + 4.0 * float(np.abs(scores).max(initial=0.0)) + 2.0 * float(np.abs(self.pair).sum())
