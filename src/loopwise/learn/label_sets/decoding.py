r"""From scores to label sets: by enumeration, by a walk that cools, or by beliefs.

In: weights, inputs. Out: the decided sets, and the probability of each label. Stage: learning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from loopwise.arguments import checked_whole
from loopwise.graph.builders import complete
from loopwise.inference.base import Inference
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.label_sets.maximise import MOST_LABELS, all_sets, best_sets
from loopwise.learn.label_sets.weights import Floats, Integers, LabelWeights

_CELLS = 1 << 23  # numbers in memory at once where all sets are weighed
_EXAMPLES = 512  # through inference at once


class LabelDecoder(Protocol):
    """How a fitted model answers; a frozen dataclass of options."""

    def decide(self, weights: LabelWeights, inputs: Any) -> Integers:
        """One set of labels an example, 0 or 1, ``[examples, labels]``."""
        ...

    def marginals(self, weights: LabelWeights, inputs: Any) -> Floats:
        """The probability that each label is on, ``[examples, labels]``."""
        ...


@dataclass(frozen=True)
class Enumeration:
    """The best of all sets, and exact marginals: O(2^K K) an example; up to ``limit`` labels."""

    limit: int = MOST_LABELS

    def decide(self, weights: LabelWeights, inputs: Any) -> Integers:
        self._check(weights)
        return best_sets(weights.fields(inputs), weights.couplings)

    def marginals(self, weights: LabelWeights, inputs: Any) -> Floats:
        self._check(weights)
        fields, couplings = weights.fields(inputs), weights.couplings
        sets = all_sets(weights.labels)
        own = 0.5 * np.einsum("si,si->s", sets @ couplings, sets)
        found = np.empty_like(fields)
        size = max(1, _CELLS // len(sets))
        for first in range(0, len(fields), size):
            logits = fields[first : first + size] @ sets.T + own
            logits -= logits.max(axis=1, keepdims=True)
            np.exp(logits, out=logits)
            found[first : first + size] = (logits @ sets) / logits.sum(axis=1, keepdims=True)
        return found

    def _check(self, weights: LabelWeights) -> None:
        if weights.labels > self.limit:
            raise ValueError(
                f"enumerating the sets of {weights.labels} labels would take too long (the limit is {self.limit}); use "
                "Annealed() or ByBeliefs()"
            )


@dataclass(frozen=True)
class ByBeliefs:
    """Labels whose marginal under ``inference`` is above ``threshold``: least expected Hamming loss at one half."""

    inference: Inference = field(default_factory=lambda: BP(iterations=20))
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must be from 0 to 1, not {self.threshold}")

    def decide(self, weights: LabelWeights, inputs: Any) -> Integers:
        return (self.marginals(weights, inputs) > self.threshold).astype(np.int64)

    def marginals(self, weights: LabelWeights, inputs: Any) -> Floats:
        import torch

        from loopwise.inference.loss_of_beliefs import ignored_convergence

        graph, singles = complete(weights.labels), weights.singles(inputs)
        pair = torch.from_numpy(np.ascontiguousarray(weights.pair))
        pieces = [np.zeros((0, weights.labels))]
        with torch.no_grad(), ignored_convergence():
            for first in range(0, len(singles), _EXAMPLES):
                unary = torch.from_numpy(np.ascontiguousarray(singles[first : first + _EXAMPLES]))
                beliefs = self.inference(graph, {"unary": unary, "pair": pair})
                pieces.append(beliefs.variables[..., 1].double().numpy())
        return np.concatenate(pieces)


@dataclass(frozen=True)
class Annealed:
    """The best set met by Gibbs sweeps that cool geometrically, from no label at all; any number of labels.

    O(sweeps K^2) an example. Marginals are those of ``beliefs``.
    """

    sweeps: int = 100
    first: float = 1.0
    last: float = 0.01
    seed: int = 0
    beliefs: ByBeliefs = field(default_factory=ByBeliefs)

    def __post_init__(self) -> None:
        checked_whole("sweeps", self.sweeps)
        if not 0 < self.last <= self.first:
            raise ValueError(f"temperatures must fall, above 0, not go from {self.first} to {self.last}")

    def decide(self, weights: LabelWeights, inputs: Any) -> Integers:
        from loopwise.learn.kernels.label_sets import cool_sets

        fields, labels = weights.fields(inputs), weights.labels
        best = np.zeros(fields.shape, dtype=np.int64)
        cool_sets(
            fields,
            weights.couplings,
            self.sweeps,
            float(self.first),
            float(self.last),
            self.seed,
            np.zeros(4, dtype=np.uint64),
            np.zeros(labels),
            np.zeros(labels, dtype=np.int64),
            best,
        )
        return best

    def marginals(self, weights: LabelWeights, inputs: Any) -> Floats:
        return self.beliefs.marginals(weights, inputs)


@dataclass(frozen=True)
class Automatic:
    """:class:`Enumeration` up to ``limit`` labels, :class:`Annealed` beyond."""

    limit: int = MOST_LABELS

    def decide(self, weights: LabelWeights, inputs: Any) -> Integers:
        return self._chosen(weights).decide(weights, inputs)

    def marginals(self, weights: LabelWeights, inputs: Any) -> Floats:
        return self._chosen(weights).marginals(weights, inputs)

    def _chosen(self, weights: LabelWeights) -> LabelDecoder:
        return Enumeration(self.limit) if weights.labels <= self.limit else Annealed()
