"""The averaged structured perceptron with exact decoding.

In: a problem. Out: weights. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from loopwise.apps.multilabel.decoding import MOST_LABELS, Automatic, Decoder, best_sets
from loopwise.apps.multilabel.learners.base import Watch, check_positive
from loopwise.apps.multilabel.learners.differences import Example, together
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.weights import LabelWeights


@dataclass(frozen=True)
class Perceptron:
    r"""Adds :math:`\phi(y^*)-\phi(\hat y)` where the best set is wrong (Collins 2002); averaged over all examples seen.

    The best set is found by enumeration, so there are at most 20 labels. O(2^K K + features) an example.
    """

    epochs: int = 10

    def __post_init__(self) -> None:
        check_positive(epochs=self.epochs)

    @property
    def rounds(self) -> int:
        return self.epochs

    @property
    def decoder(self) -> Decoder:
        return Automatic()

    def learn(self, problem: Problem, start: LabelWeights, watch: Watch, seed: int) -> LabelWeights:
        if problem.labels > MOST_LABELS:
            raise ValueError(
                f"the perceptron decodes by enumeration, up to {MOST_LABELS} labels, not {problem.labels}; use "
                "SampleRank"
            )
        part = watch.begin()
        weights, sums, time, first = start.like(start.vector.copy()), problem.start(), 0, 0
        if part.state is not None:
            time, first = part.state["time"], part.state["epochs"]
            weights.vector[:], sums.vector[:] = part.state["weights"].numpy(), part.state["sums"].numpy()

        def average() -> LabelWeights:
            return start.like(weights.vector - sums.vector / time)

        def kept(epochs: int) -> dict[str, Any]:
            vectors = {"weights": torch.from_numpy(weights.vector), "sums": torch.from_numpy(sums.vector)}
            return {"epochs": epochs, "time": time, **vectors}

        for epoch in range(first, self.epochs):
            wrong = 0
            for number in np.random.default_rng([seed, epoch]).permutation(len(problem)).tolist():
                time += 1
                example = Example.of(problem, number)
                guess = best_sets(example.fields(weights)[None], weights.couplings)[0].astype(np.float64)
                if (guess != example.gold).any():
                    wrong += 1
                    example.add_difference(weights, guess, together(guess), 1.0)
                    example.add_difference(sums, guess, together(guess), float(time - 1))
            watch.round(wrong / len(problem), average)
            watch.keep(partial(kept, epoch + 1))
        return average()
