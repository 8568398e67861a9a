"""A small learner with a hashed table of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.learn.hashed import HashedModel, HashedObjective, OnlineSettings


class Regression(HashedModel):
    """An example is one part of three features, whose score is to be its target."""

    def __init__(self, count: int = 40) -> None:
        rng = np.random.default_rng(0)
        self.features = rng.integers(0, 50, (count, 3)).astype(np.int32)
        self.target = rng.normal(size=50)[self.features].sum(1)

    def costs(self) -> NDArray[np.float64]:
        return np.ones(len(self.target))

    def build(self, chosen: NDArray[np.int64], size: int) -> tuple[Any, ...]:
        return np.arange(0, 3 * len(chosen) + 1, 3), self.features[chosen].reshape(-1)

    def step(
        self, chosen: Any, parts: tuple[Any, ...], position: Any, weights: Any, scale: float, share: float
    ) -> tuple[Any, Any]:
        apart = weights[position].reshape(-1, 3).sum(1) - self.target[chosen]
        return scale * apart, apart**2 / 2


def objective(**options: Any) -> HashedObjective:
    settings = {"epochs": 6, "batch": 7, "rate": 0.3, **options}
    return HashedObjective(Regression, 50, OnlineSettings(**settings))
