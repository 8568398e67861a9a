"""Which walks an epoch consists of: documents in order, their steps, starts and random streams.

In: a model, documents, options of ``fit``. Out: visits. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.arguments import checked_whole
from loopwise.walk.models.model import Model
from loopwise.walk.randomness import Stream, stream_number
from loopwise.walk.sessions import Visiting
from loopwise.walk.world import Start

_COIN = 1 << 30  # epochs of streams that only toss the coin of mixed starts: no walk has so many


@dataclass(frozen=True)
class Sweeps:
    """Steps in proportion to a document.

    Parameters
    ----------
    count: for each of its items.
    most: in all, at most; for models in which a step takes the longer, the larger the document is. None: no limit.

    Example:
        >>> Sweeps(10, most=50).of(3), Sweeps(10, most=50).of(8)
        (30, 50)
    """

    count: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        checked_whole("the number of sweeps", self.count)
        if self.most is not None:
            checked_whole("most", self.most)

    def of(self, items: int) -> int:
        """The steps of a document of so many items."""
        steps = self.count * items
        return steps if self.most is None else min(steps, self.most)


Steps = int | Sweeps


@dataclass(frozen=True)
class WalkPlan:
    """How documents are visited, epoch after epoch."""

    model: Model
    documents: Sequence[Any]
    steps: Steps
    start: Start
    seed: int
    shuffle: bool

    def __post_init__(self) -> None:
        if not isinstance(self.steps, Sweeps):
            checked_whole("steps", self.steps)
        if self.start not in (Start.PREVIOUS, Start.MIXED):
            check_start(self.model, self.start)

    def visits(self, epoch: int) -> list[Visiting]:
        """The walks of an epoch; each depends on seed, epoch and document only."""
        order = np.arange(len(self.documents))
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(order)
        return [
            Visiting(
                number,
                steps_of(self.model, self.documents[number], self.steps),
                self._start(epoch, number),
                stream_number(epoch, number),
            )
            for number in order.tolist()
        ]

    def _start(self, epoch: int, number: int) -> Start | None:
        if self.start is Start.PREVIOUS:
            return None if epoch else Start.TRUTH
        if self.start is Start.MIXED:
            heads = Stream(self.seed, stream_number(epoch + _COIN, number)).below(2)
            return Start.TRUTH if heads else self.model.decoding_start()
        return self.start


def steps_of(model: Model, document: Any, steps: Steps) -> int:
    """How many steps a document gets."""
    return steps.of(model.items(document)) if isinstance(steps, Sweeps) else steps


def check_start(model: Model, start: Start) -> None:
    """Refuses a start state that the model does not have."""
    if start not in model.starts:
        names = sorted(known.name for known in model.starts)
        raise ValueError(f"{type(model).__name__} has no start {start.name}; it has {', '.join(names)}")
