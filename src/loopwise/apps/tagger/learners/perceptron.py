"""The averaged structured perceptron (Collins 2002).

In: a problem. Out: weights. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.learners.online import run_epochs
from loopwise.apps.tagger.problem import Problem, Weights


@dataclass(frozen=True)
class Perceptron:
    r"""At each sentence :math:`w\leftarrow w+\phi(y)-\phi(\hat y)`, :math:`\hat y` the best path; gives the mean.

    The mean is over all steps, also those without a change. The history shows the share of wrong tokens.
    """

    epochs: int = 10

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {self.epochs}")

    @property
    def rounds(self) -> int:
        return self.epochs

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        return run_epochs(
            problem,
            start,
            watch,
            seed,
            epochs=self.epochs,
            cost=0.0,
            strength=0.0,
            skip=0,
            loss=lambda wrong, hinge, weights: wrong / max(problem.tokens, 1),
        )
