"""Learning from data that do not fit memory: batch after batch, each seen and let go.

In: batches. Out: :class:`Incremental`, what estimators with ``partial_fit`` share. Stage: use. The steps are those of
:mod:`loopwise.learn.optim.stream`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from loopwise.arguments import checked_whole
from loopwise.learn.files.card import training_card
from loopwise.learn.progress import progress_bar


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
        checked_whole("epochs", epochs)
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
