"""Worlds and moves: a state that a walk changes in place, and the changes that can be taken back.

In: values of items (variables, mentions). Out: the contract of states. Stage: walking.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from typing import Any

from loopwise.loss.incremental import Change


class Start(Enum):
    """Where a walk begins.

    ``TRUTH``; ``RANDOM``, every item at random; ``SINGLETONS``, every mention alone; ``PREVIOUS``, where the walk of
    the last epoch ended (in the first epoch the truth); ``MIXED``, the truth or where decoding begins, as a coin falls.
    """

    TRUTH = "truth"
    RANDOM = "random"
    SINGLETONS = "singletons"
    PREVIOUS = "previous"
    MIXED = "mixed"


class World(ABC):
    """A complete state of one document. A walk changes it in place, by moves."""

    @abstractmethod
    def labels(self) -> list[int]:
        """The state as one integer an item: what metrics look at, and what :meth:`Model.world_of` can read again."""

    @abstractmethod
    def assign(self, item: int, value: int) -> Any:
        """Changes one item; returns whatever :meth:`restore` needs to take that back."""

    @abstractmethod
    def restore(self, token: Any) -> None:
        """Takes the last :meth:`assign` back, to the very same state in every detail."""

    @abstractmethod
    def copy(self) -> World:
        """A state of its own."""

    def key(self) -> Hashable:
        """Equal for equal states."""
        return tuple(self.labels())


class Move:
    """A diff: items with their old and new values, made in order and taken back in reverse.

    >>> from loopwise.walk.labelling import Labelling
    >>> world = Labelling([0, 2, 1], [3, 3, 3])
    >>> move = Move([(1, 2, 0), (2, 1, 0)])
    >>> move.apply(world); world.labels()
    [0, 0, 0]
    >>> move.undo(world); world.labels()
    [0, 2, 1]
    """

    __slots__ = ("_tokens", "changes")

    def __init__(self, changes: Iterable[Change]) -> None:
        self.changes: Sequence[Change] = tuple(changes)
        self._tokens: list[Any] | None = None

    @property
    def touched(self) -> tuple[int, ...]:
        """The items that change."""
        return tuple(item for item, _, _ in self.changes)

    def apply(self, world: World) -> None:
        """Makes the changes; a second time only after :meth:`undo`."""
        if self._tokens is not None:
            raise ValueError("the move is made already: undo it before making it again")
        self._tokens = [world.assign(item, new) for item, _, new in self.changes]

    def undo(self, world: World) -> None:
        """Takes the changes back, last first."""
        if self._tokens is None:
            raise ValueError("the move is not made: there is nothing to undo")
        for token in reversed(self._tokens):
            world.restore(token)
        self._tokens = None

    def __repr__(self) -> str:
        return f"Move({', '.join(f'{item}: {old} to {new}' for item, old, new in self.changes)})"
