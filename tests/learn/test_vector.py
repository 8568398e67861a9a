"""Objectives of one vector: the answer is that of the last round, or the one that was chosen."""

from __future__ import annotations

import numpy as np
import torch

from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits, train
from loopwise.learn.vector import Floats, VectorObjective


class Counting(VectorObjective):
    """Each round adds one to every weight."""

    def __init__(self) -> None:
        self.made = 0

    def begin(self, restart: int, stage: int) -> None:
        self.made = 0

    def round(self, tell: Tell) -> float:
        self.made += 1
        return -float(self.made)

    def now(self) -> Floats:
        return np.full(2, float(self.made))

    def state(self) -> dict[str, int]:
        return {"made": self.made}

    def load_state(self, state: dict[str, int]) -> None:  # type: ignore[override]
        self.made = state["made"]


def test_without_a_score_the_last_round_counts() -> None:
    objective = Counting()
    train(objective, Limits.rounds(3))
    assert objective.measure() is None and objective.answer.tolist() == [3.0, 3.0]


def test_with_a_score_the_best_round_counts() -> None:
    for larger, best in ((True, 2.0), (False, 4.0)):
        objective = Counting()
        objective.score, objective.larger = lambda weights: -abs(float(weights[0]) - 2.0), larger
        train(objective, Limits.rounds(4))
        assert objective.answer.tolist() == [best, best]
        assert torch.equal(objective.weights(), torch.tensor([best, best], dtype=torch.float64))
