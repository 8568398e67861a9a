"""Pegasos: a structured SVM by stochastic subgradients, one random example at a time.

In: a problem. Out: weights. Stage: use. Loss-augmented inference is a linear program or exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from loopwise.apps.multilabel.decoding import Automatic, Decoder
from loopwise.apps.multilabel.learners.base import Watch, check_positive
from loopwise.apps.multilabel.learners.differences import Example
from loopwise.apps.multilabel.learners.relaxation import LinearProgram, Maximiser
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.weights import LabelWeights


@dataclass(frozen=True)
class Pegasos:
    r"""Minimises :math:`\frac\lambda2|\theta|^2+\frac1n\sum\max_y[\Delta(y^*,y)+\theta\cdot(\phi(y)-\phi(y^*))]`.

    :math:`\Delta` is the number of wrong labels. Step t goes :math:`\frac1{\lambda t}` along the subgradient of
    ``batch`` random examples (Shalev-Shwartz, Singer & Srebro 2007, without the optional projection), so that

    .. math:: \theta_t=\frac1{\lambda t}\sum_{\tau\le t}D_\tau=\frac{G_t}{\lambda t},\qquad
        \sum_{t=s+1}^T\theta_t=\frac1\lambda\Big(H_TG_T-H_sG_s-\sum_{\tau=s+1}^TH_{\tau-1}D_\tau\Big)

    with harmonic numbers H and :math:`D=\phi(y^*)-\phi(\hat\mu)`: the mean of the weights of the last epoch, which is
    the answer unless ``average`` is false, is exact, and updates cost O(features). ``maximiser``:
    :class:`LinearProgram`, some milliseconds an example, or :class:`Exactly`. It starts at 0 whatever weights there
    are. An epoch is as many draws as there are examples.
    """

    strength: float = 1e-3  # lambda
    epochs: int = 5
    batch: int = 1
    maximiser: Maximiser = field(default_factory=LinearProgram)
    average: bool = True

    def __post_init__(self) -> None:
        check_positive(strength=self.strength, epochs=self.epochs, batch=self.batch)

    @property
    def rounds(self) -> int:
        return self.epochs

    @property
    def decoder(self) -> Decoder:
        return Automatic()

    def learn(self, problem: Problem, start: LabelWeights, watch: Watch, seed: int) -> LabelWeights:
        part, generator, begun = watch.begin(), np.random.default_rng(seed), 0
        total, late, time, harmonic, first = problem.start(), problem.start(), 0, 0.0, 0
        if part.state is not None:
            begun, time, harmonic, first = (part.state[name] for name in ("epochs", "time", "harmonic", "first"))
            generator.bit_generator.state = part.state["generator"]
            total.vector[:], late.vector[:] = part.state["total"].numpy(), part.state["late"].numpy()

        def weights() -> LabelWeights:
            if not self.average:
                return start.like(total.vector / (self.strength * time))
            return start.like((harmonic * total.vector - late.vector) / (self.strength * (time - first)))

        def kept(epochs: int) -> dict[str, Any]:
            numbers = {"epochs": epochs, "time": time, "harmonic": harmonic, "first": first}
            vectors = {"total": torch.from_numpy(total.vector), "late": torch.from_numpy(late.vector)}
            return {**numbers, **vectors, "generator": generator.bit_generator.state}

        for epoch in range(begun, self.epochs):
            late.vector[:] = harmonic * total.vector
            first = time
            loss, draws = 0.0, -(-len(problem) // self.batch)
            for _ in range(draws):
                time += 1
                scale = 1.0 / (self.strength * (time - 1)) if time > 1 else 0.0
                loss += self._step(problem, total, late, scale, harmonic, generator)
                harmonic += 1.0 / time
            watch.round(loss / draws, weights)
            watch.keep(partial(kept, epoch + 1))
        return weights()

    def _step(
        self,
        problem: Problem,
        total: LabelWeights,
        late: LabelWeights,
        scale: float,
        harmonic: float,
        generator: np.random.Generator,
    ) -> float:
        """Adds the subgradient of a random batch to ``total``, and ``harmonic`` times it to ``late``; its slack."""
        chosen = generator.integers(0, len(problem), self.batch).tolist()
        examples = [Example.of(problem, number) for number in chosen]
        fields = np.stack([example.fields(total, scale) for example in examples])
        gold = np.stack([example.gold for example in examples])
        couplings = scale * total.couplings
        single, both = self.maximiser.maximise(fields + (1 - 2 * gold), couplings)
        first, second = np.triu_indices(problem.labels, 1)
        slack = 0.0
        for place, example in enumerate(examples):
            wrong = single[place] - gold[place]
            pairs = both[place] - gold[place, first] * gold[place, second]
            own = float(np.abs(wrong).sum() + wrong @ fields[place] + pairs @ couplings[first, second])
            if own > 0:
                example.add_difference(total, single[place], both[place], 1.0 / self.batch)
                example.add_difference(late, single[place], both[place], harmonic / self.batch)
            slack += max(own, 0.0) / self.batch
        return slack
