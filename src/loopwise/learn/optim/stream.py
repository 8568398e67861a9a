"""Steps over batches that are seen once: AdaGrad on a vector (Duchi, Hazan & Singer 2011), which needs no schedule.

In: a function of weights with its gradient for each batch. Out: changed weights. Stage: learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = Callable[[Floats], tuple[float, Floats]]

RATE = 0.5  # half a nat for a weight at its first step
STEP = 32  # examples


class StreamAdaGrad:
    r"""Steps :math:`\theta_i\leftarrow\theta_i-\eta\,g_i/\sqrt{\sum g_i^2}` over batches, with an L2 penalty.

    ``l2`` is the strength beside the sum of the loss over all examples; of a batch of m it takes m of as many as were
    seen so far.
    """

    def __init__(self, size: int, l2: float, rate: float = RATE) -> None:
        self.squares, self.l2, self.rate, self.seen = np.zeros(size), l2, rate, 0.0

    def step(self, function: Function, vector: Floats, count: float) -> tuple[float, Floats]:
        """The loss of a batch of ``count`` examples (a sum), and the weights after its step."""
        self.seen += count
        value, slope = function(vector)
        slope = (slope + self.l2 * min(1.0, count / self.seen) * vector) / count
        self.squares += slope * slope
        moved: Floats = vector - self.rate * slope / np.sqrt(np.where(self.squares > 0, self.squares, 1.0))
        return value, moved

    def grown(self, place: NDArray[np.int64], size: int) -> None:
        """Weights have moved to ``place`` in a longer vector."""
        squares = np.zeros(size)
        squares[place] = self.squares
        self.squares = squares


def total(mean: Function, count: int) -> Function:
    """A mean over ``count`` examples as a sum."""

    def summed(vector: Floats) -> tuple[float, Floats]:
        value, slope = mean(vector)
        return count * value, count * slope

    return summed


def parts(count: int, size: int = STEP) -> Iterator[slice]:
    """Slices of at most ``size`` of ``count`` examples."""
    return (slice(first, min(first + size, count)) for first in range(0, count, size))
