"""What hears of a training in rounds: the history, the best weights on development data, the bar.

In: the loss of each round and the weights it would end with. Out: a :class:`~loopwise.learn.history.History`. Stage:
use; shared by the applications whose learners are strategies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from loopwise.learn.history import Epoch, History
from loopwise.learn.progress import Tell

W = TypeVar("W")


@dataclass
class Rounds(Generic[W]):
    """Hears of each round (epoch, iteration). ``measure``: of weights on development data; the best ones are kept."""

    larger_is_better: ClassVar[bool] = True
    measured: ClassVar[str] = "development"  # what the bar calls it

    tell: Tell = field(default=lambda done, text: None)
    measure: Callable[[W], float] | None = None
    history: History = field(default_factory=History)
    best: W | None = None
    _since: float = field(default_factory=time.perf_counter)

    def round(self, loss: float, weights: Callable[[], W] | None = None) -> bool:
        """A round has ended; ``weights``, asked for only if there is development data, are those it would end with.

        True: end now.
        """
        seconds, number, reached = time.perf_counter() - self._since, len(self.history.epochs) + 1, None
        if self.measure is not None and weights is not None:
            made = weights()
            reached = self.measure(made)
            if all(self._better(reached, epoch.dev) for epoch in self.history.epochs if epoch.dev is not None):
                self.best, self.history.best = made, number
        self.history.epochs.append(Epoch(number, loss, seconds, dev=reached))
        said = f"round {number}, loss {loss:.5g}"
        self.tell(number, said if reached is None else f"{said}, {self.measured} {reached:.4f}")
        self._since = time.perf_counter()
        return False

    def _better(self, one: float, other: float) -> bool:
        return one > other if self.larger_is_better else one < other
