"""Objectives whose weights are one vector: what compiled learners share.

In: a way to go on. Out: :class:`VectorObjective`. Stage: learning.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.learn.objective import Objective

Floats = NDArray[np.float64]


class VectorObjective(Objective):
    """An objective whose :attr:`answer` is a vector; ``score`` measures one on development data.

    ``score`` may be set once the objective is made; ``larger``: whether more of it is better.
    """

    score: Callable[[Floats], float] | None = None
    larger: bool = True
    _chosen: Floats | None = None

    @abstractmethod
    def now(self) -> Floats:
        """The weights that training would end with after the last round: an average, for many."""

    @property
    def answer(self) -> Floats:
        """The weights: those of the best round once the trainer has chosen it."""
        return self.now() if self._chosen is None else self._chosen

    def weights(self) -> Any:
        return torch.from_numpy(np.array(self.answer))

    def set_weights(self, weights: Any) -> None:
        self._chosen = weights.numpy().copy()

    def measure(self) -> float | None:
        return None if self.score is None else self.score(self.now())

    @property
    def higher_is_better(self) -> bool:
        return self.larger
