"""Sets of binary labels, each with an input: what objectives over them are given.

In: prepared inputs, right labels. Out: :class:`LabelProblem`. Stage: learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopwise.learn.label_sets.weights import Floats, Integers, LabelWeights
from loopwise.potentials.linear import compressed


@dataclass(frozen=True, eq=False)
class LabelProblem:
    """``inputs`` ``[examples, features]`` with the constant feature, dense or sparse; ``gold`` 0 or 1, ``[examples,
    labels]``; ``weights`` what each example counts, if not 1."""

    inputs: Any
    gold: Integers
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def labels(self) -> int:
        return int(self.gold.shape[1])

    @property
    def features(self) -> int:
        return int(self.inputs.shape[1])

    @cached_property
    def rows(self) -> Any:
        """The inputs as a SciPy CSR array."""
        return compressed(self.inputs)

    def start(self) -> LabelWeights:
        """Weights 0."""
        return LabelWeights.zeros(self.labels, self.features)

    def take(self, chosen: Integers) -> LabelProblem:
        """Some of the examples."""
        weights = None if self.weights is None else self.weights[chosen]
        return LabelProblem(self.inputs[chosen], self.gold[chosen], weights)

    @property
    def total(self) -> float:
        """How many examples there are, by their weights."""
        return float(len(self)) if self.weights is None else float(self.weights.sum())
