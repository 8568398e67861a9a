r"""The training signal :math:`\omega` of a walk: any metric, followed step by step.

In: a world and the true one. Out: gains of moves. Stage: walking.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loopwise.walk.world import Move, World


class Signal(ABC):
    """How good a world is, larger is better; follows the world through the moves it is told of."""

    @abstractmethod
    def gain(self, move: Move) -> float:
        """What the signal would rise by; the world is left as it is."""

    @abstractmethod
    def accept(self, move: Move) -> None:
        """The move was made."""

    @abstractmethod
    def gap(self) -> float:
        """How far the world is below the truth."""


class _OfTracker(Signal):
    """The signal of a metric with a ``track`` method."""

    def __init__(self, tracker: Any) -> None:
        self.tracker = tracker

    def gain(self, move: Move) -> float:
        return float(self.tracker.gain(move.changes))

    def accept(self, move: Move) -> None:
        for change in move.changes:
            self.tracker.change(*change)

    def gap(self) -> float:
        return float(self.tracker.gap())


@dataclass(frozen=True)
class WholeWorld:
    """A metric as a function of a world: ``function(world)``, larger is better; computed anew for every proposal.

    For trying a metric out. One with a ``track`` method costs O(changes) a step instead of O(document).
    """

    function: Callable[[Any], float]


class _OfFunction(Signal):
    def __init__(self, function: Callable[[World], float], world: World, truth: World) -> None:
        self.function, self.world = function, world
        self.top, self.now = float(function(truth)), float(function(world))

    def gain(self, move: Move) -> float:
        move.apply(self.world)
        after = float(self.function(self.world))
        move.undo(self.world)
        return after - self.now

    def accept(self, move: Move) -> None:
        self.now = float(self.function(self.world))

    def gap(self) -> float:
        return self.top - self.now


def follow(metric: Any, world: World, truth: World, gold: Sequence[int] | None = None) -> Signal:
    """The signal of ``metric`` at ``world``; ``gold``: the labels of the truth, -1 where an item is not scored."""
    if isinstance(metric, WholeWorld):
        return _OfFunction(metric.function, world, truth)
    if hasattr(metric, "watch"):
        watching: Signal = metric.watch(world)
        return watching
    if not hasattr(metric, "track"):
        raise ValueError(
            f"{metric!r} cannot be followed through a walk: use a metric with a method track (lw.metric.Accuracy() "
            "and the like), or lw.walk.WholeWorld(function)"
        )
    return _OfTracker(metric.track(truth.labels() if gold is None else gold, world.labels()))
