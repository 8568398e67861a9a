"""The structured SVM with margin scaling, by stochastic subgradients (Tsochantaridis et al. 2005; Pegasos).

In: a problem. Out: weights. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.learners.online import run_epochs
from loopwise.apps.tagger.problem import Problem, Weights


@dataclass(frozen=True)
class SVM:
    r"""Minimises :math:`\frac12|w|^2+C\sum_i\max_y[\Delta(y,y_i)+\theta\cdot(\phi(y)-\phi(y_i))]`.

    :math:`\Delta` is ``cost`` for each wrong token; the inner maximum is a best path with these costs added. ``c``:
    :math:`C`, sensible from about 0.0001 (a nearly constant model) to 10 (nearly a perceptron with margin). Steps
    are those of Pegasos (Shalev-Shwartz et al. 2011) with strength :math:`1/(Cn)`; the answer is the mean over all
    epochs but the first. The history shows the objective, divided by :math:`Cn`, of weights as they change.
    """

    c: float = 0.1
    epochs: int = 10
    cost: float = 1.0

    def __post_init__(self) -> None:
        for name, value in {"c": self.c, "cost": self.cost}.items():
            if not 0.0 < value < np.inf:
                raise ValueError(f"{name} must be a positive number, not {value}")
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {self.epochs}")

    @property
    def rounds(self) -> int:
        return self.epochs

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        count = max(problem.sentences, 1)
        strength = 1.0 / (self.c * count)

        def objective(wrong: int, hinge: float, weights: Weights) -> float:
            return 0.5 * strength * float(weights.vector @ weights.vector) + hinge / count

        return run_epochs(
            problem,
            start,
            watch,
            seed,
            epochs=self.epochs,
            cost=self.cost,
            strength=strength,
            skip=1 if self.epochs > 1 else 0,
            loss=objective,
        )
