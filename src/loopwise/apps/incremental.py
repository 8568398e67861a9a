"""Learning from data that do not fit memory: batch after batch, each seen and let go.

In: batches, a function of weights with its gradient for each. Out: changed weights. Stage: use. Steps are those of
AdaGrad (Duchi, Hazan & Singer 2011), whose lengths need no schedule.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loopwise.learn.card import training_card
from loopwise.learn.progress import progress_bar

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.float64]
Function = Callable[[Floats], tuple[float, Floats]]

RATE = 0.5  # of AdaGrad: half a nat for a weight at its first step
STEP = 32  # examples


class AdaGrad:
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


class Incremental:
    """Estimators that learn batch by batch: ``partial_fit``, and a loop over batches of any iterable."""

    def __getstate__(self) -> dict[str, Any]:
        """Without what steps have summed up so far: a copy goes on from the weights with fresh steps."""
        return {name: value for name, value in self.__dict__.items() if name != "_stream"}

    card_: Mapping[str, Any]

    def _note_batch(self, count: int, what: str, goal: str) -> None:
        """Counts a batch for the card: examples, called ``what``, that were trained for ``goal``."""
        told = dict(getattr(self, "card_", None) or training_card("", goal))
        figures = dict(told.get("figures", {}))
        figures["batches"] = figures.get("batches", 0) + 1
        figures["examples in batches"] = figures.get("examples in batches", 0) + count
        if "training loss" not in figures:  # all there was came in batches
            told["data"] = f"{figures['examples in batches']} {what} in {figures['batches']} batches"
        self.card_ = {**told, "figures": figures}

    @abstractmethod
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Goes on with one batch."""

    def fit_batches(
        self,
        batches: Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]],
        *,
        epochs: int = 1,
        classes: Any = None,
        progress: bool = True,
    ) -> Self:
        """Learns from batches ``(X, y)`` that are read one at a time, ``epochs`` times: data that do not fit memory.

        Parameters
        ----------
        batches:
            An iterable; for several epochs one that can be read again, or a function that opens it anew.
        classes:
            All labels there are; by default those of the first batch.

        Returns
        -------
        The estimator, after one :meth:`partial_fit` for each batch.
        """
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {epochs}")
        if epochs > 1 and isinstance(batches, Iterator):
            raise ValueError(
                "an iterator is empty after one epoch: give a list, or a function that opens the batches anew, for more"
            )
        count = 0
        with progress_bar(progress, epochs) as tell:
            for epoch in range(epochs):
                for X, y in batches() if callable(batches) else batches:
                    self.partial_fit(X, y, classes=classes)
                    count += 1
                    tell(epoch, f"epoch {epoch + 1}, {count} batches")
        if not count:
            raise ValueError("there are no batches; give at least one")
        return self


def total(mean: Function, count: int) -> Function:
    """A mean over ``count`` examples as a sum."""

    def summed(vector: Floats) -> tuple[float, Floats]:
        value, slope = mean(vector)
        return count * value, count * slope

    return summed


def parts(count: int, size: int = STEP) -> Iterator[slice]:
    """Slices of at most ``size`` of ``count`` examples."""
    return (slice(first, min(first + size, count)) for first in range(0, count, size))
