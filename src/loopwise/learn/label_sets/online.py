r"""Learning label sets example by example, each from its own best answer: perceptron and structured SVM.

In: a problem. Out: :class:`OnlinePerceptron`, :class:`OnlinePegasos`, whose rounds are as many examples as there are.
Stage: learning. Loss-augmented inference is a linear program or exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.learn.label_sets.maximise import MOST_LABELS, Maximiser, best_sets, together
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import Floats, LabelWeights
from loopwise.learn.progress import Tell
from loopwise.learn.vector import VectorObjective


@dataclass(frozen=True, eq=False)
class LabelledInput:
    """One example: its input as numbers of features with values, its right labels."""

    index: NDArray[np.integer]
    value: Floats
    gold: Floats  # [labels]

    @staticmethod
    def of(problem: LabelProblem, number: int) -> LabelledInput:
        """An example by its number."""
        rows = problem.rows
        first, end = rows.indptr[number], rows.indptr[number + 1]
        return LabelledInput(rows.indices[first:end], rows.data[first:end], problem.gold[number].astype(np.float64))

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


def pair_cells(single: Floats, both: Floats) -> Floats:
    """The table of each pair, ``[pairs, 2, 2]``, from the shares of each label and of both together."""
    first, second = np.triu_indices(len(single), 1)
    one, other = single[first], single[second]
    return np.stack([1 - one - other + both, other - both, one - both, both], axis=1).reshape(-1, 2, 2)


class OnlinePerceptron(VectorObjective):
    r"""Adds :math:`\phi(y^*)-\phi(\hat y)` where the best set is wrong (Collins 2002); averaged over all examples seen.

    The best set is found by enumeration. The loss is the share of wrong sets. O(2^K K + features) an example.
    """

    def __init__(self, problem: LabelProblem, start: LabelWeights, seed: int) -> None:
        if problem.labels > MOST_LABELS:
            raise ValueError(
                f"the perceptron decodes by enumeration, up to {MOST_LABELS} labels, not {problem.labels}; use "
                "SampleRank"
            )
        self.problem, self.seed = problem, seed
        self._weights, self._sums = start.like(start.vector.copy()), problem.start()
        self._time = self._epochs = 0

    def round(self, tell: Tell) -> float:
        weights, wrong = self._weights, 0
        for number in np.random.default_rng([self.seed, self._epochs]).permutation(len(self.problem)).tolist():
            self._time += 1
            example = LabelledInput.of(self.problem, number)
            guess = best_sets(example.fields(weights)[None], weights.couplings)[0].astype(np.float64)
            if (guess != example.gold).any():
                wrong += 1
                example.add_difference(weights, guess, together(guess), 1.0)
                example.add_difference(self._sums, guess, together(guess), float(self._time - 1))
        self._epochs += 1
        return wrong / len(self.problem)

    def now(self) -> Floats:
        average: Floats = self._weights.vector - self._sums.vector / max(self._time, 1)
        return average

    def state(self) -> dict[str, Any]:
        vectors = {
            "weights": torch.from_numpy(self._weights.vector),
            "sums": torch.from_numpy(self._sums.vector),
        }
        return {"epochs": self._epochs, "time": self._time, **vectors}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._epochs, self._time = state["epochs"], state["time"]
        self._weights.vector[:], self._sums.vector[:] = state["weights"].numpy(), state["sums"].numpy()


class OnlinePegasos(VectorObjective):
    r"""Minimises :math:`\frac\lambda2|\theta|^2+\frac1n\sum\max_y[\Delta(y^*,y)+\theta\cdot(\phi(y)-\phi(y^*))]`.

    :math:`\Delta` is the number of wrong labels. Step t goes :math:`\frac1{\lambda t}` along the subgradient of
    ``batch`` random examples (Shalev-Shwartz, Singer & Srebro 2007, without the optional projection), so that

    .. math:: \theta_t=\frac1{\lambda t}\sum_{\tau\le t}D_\tau=\frac{G_t}{\lambda t},\qquad
        \sum_{t=s+1}^T\theta_t=\frac1\lambda\Big(H_TG_T-H_sG_s-\sum_{\tau=s+1}^TH_{\tau-1}D_\tau\Big)

    with harmonic numbers H and :math:`D=\phi(y^*)-\phi(\hat\mu)`: the mean of the weights of the last epoch, which is
    the answer unless ``average`` is false, is exact, and updates cost O(features). It starts at 0. The loss is the mean
    of what each example fell short by.
    """

    def __init__(
        self,
        problem: LabelProblem,
        seed: int,
        maximiser: Maximiser,
        *,
        strength: float,
        batch: int = 1,
        average: bool = True,
    ) -> None:
        self.problem, self.maximiser = problem, maximiser
        self.strength, self.batch, self.average = strength, batch, average
        self._generator = np.random.default_rng(seed)
        self._total, self._late = problem.start(), problem.start()
        self._time = self._first = 0
        self._harmonic = 0.0

    def round(self, tell: Tell) -> float:
        self._late.vector[:] = self._harmonic * self._total.vector
        self._first = self._time
        loss, draws = 0.0, -(-len(self.problem) // self.batch)
        for _ in range(draws):
            self._time += 1
            scale = 1.0 / (self.strength * (self._time - 1)) if self._time > 1 else 0.0
            loss += self._step(scale)
            self._harmonic += 1.0 / self._time
        return loss / draws

    def now(self) -> Floats:
        found: Floats
        if not self._time:
            return self._total.vector.copy()
        if not self.average:
            found = self._total.vector / (self.strength * self._time)
            return found
        found = (self._harmonic * self._total.vector - self._late.vector) / (self.strength * (self._time - self._first))
        return found

    def state(self) -> dict[str, Any]:
        return {
            "place": (self._time, self._first, self._harmonic),
            "generator": self._generator.bit_generator.state,
            "total": torch.from_numpy(self._total.vector),
            "late": torch.from_numpy(self._late.vector),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._time, self._first, self._harmonic = state["place"]
        self._generator.bit_generator.state = state["generator"]
        self._total.vector[:], self._late.vector[:] = state["total"].numpy(), state["late"].numpy()

    def _step(self, scale: float) -> float:
        """Adds the subgradient of a random batch to the total, and harmonic times it to the late one; its slack."""
        problem, total = self.problem, self._total
        chosen = self._generator.integers(0, len(problem), self.batch).tolist()
        examples = [LabelledInput.of(problem, number) for number in chosen]
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
                example.add_difference(self._late, single[place], both[place], self._harmonic / self.batch)
            slack += max(own, 0.0) / self.batch
        return slack
