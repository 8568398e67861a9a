"""What hears of a training in rounds: the history, the best weights on development data, the bar, the checkpoint.

In: the loss of each round and the weights it would end with. Out: a :class:`~loopwise.learn.history.History`, and a
file from which an interrupted training goes on. Stage: use; shared by the applications whose learners are strategies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.formats.files import PathLike
from loopwise.learn.checkpoint import Run, read_checkpoint, restoring, write_checkpoint
from loopwise.learn.history import Epoch, History
from loopwise.learn.progress import Tell

_SHARE = 0.1  # of the time, at most, goes into writing checkpoints


class Weighted(Protocol):
    """Weights that are views of one vector."""

    @property
    def vector(self) -> NDArray[np.float64]: ...

    def like(self, vector: NDArray[np.float64], /) -> Any:
        """Other weights of the same model."""


W = TypeVar("W", bound=Weighted)


@dataclass(frozen=True)
class Part:
    """A part of a training that begins, such as the likelihood before ERM.

    ``state``: what :meth:`Rounds.keep` was given when it was interrupted, None: begin at the beginning. ``over``: a
    later part was interrupted, so that this one need not be done again.
    """

    state: Any = None
    over: bool = False


@dataclass
class Rounds(Generic[W]):
    """Hears of each round (epoch, iteration). ``measure``: of weights on development data; the best ones are kept.

    With a checkpoint (:meth:`open`) a learner that calls :meth:`begin` before its first round and :meth:`keep` after
    each can be interrupted at any moment.
    """

    larger_is_better: ClassVar[bool] = True
    measured: ClassVar[str] = "development"  # what the bar calls it

    tell: Tell = field(default=lambda done, text: None)
    measure: Callable[[W], float] | None = None
    history: History = field(default_factory=History)
    best: W | None = None
    _since: float = field(default_factory=time.perf_counter)
    _path: PathLike | None = None
    _run: Run = field(default_factory=dict)
    _found: dict[str, Any] | None = None
    _part: int = -1
    _written: float = -float("inf")  # when
    _cost: float = 0.0  # seconds that it took

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

    # --- Going on after an interruption ------------------------------------------------------------------------------

    def open(self, path: PathLike, run: Run, like: W) -> None:
        """Goes on from the checkpoint at ``path``, if there is one, and writes it from now on. ``like``: for shapes."""
        self._path, self._run, self._found = path, run, read_checkpoint(path, run)
        if self._found is not None:
            with restoring(path):
                self.history = History.from_json(self._found["history"])
                best = self._found["best"]
                self.best = None if best is None else like.like(best.numpy().copy())

    def train(self, learn: Callable[[], W], like: W) -> W:
        """What ``learn`` gives, or gave before the checkpoint was written; the best weights where they are known."""
        found = self._ended(like)
        if found is None:
            found = learn()
            self._finish(found)
        return found if self.best is None else self.best

    def _ended(self, like: W) -> W | None:
        """The weights of a training that the checkpoint says is over."""
        if self._found is None or self._found["final"] is None:
            return None
        found: W = like.like(self._found["final"].numpy().copy())
        return found

    def begin(self) -> Part:
        """A part of the training begins."""
        self._part += 1
        found = self._found
        if found is None or found["part"] < self._part:
            return Part()
        return Part(over=True) if found["part"] > self._part else Part(found["state"])

    def keep(self, state: Callable[[], Any]) -> None:
        """After a round: ``state`` gives everything that the rest of this part depends on (tensors, numbers, lists).

        Written as often as takes a tenth of the time at most: resuming repeats the rounds since.
        """
        if self._path is not None and (time.perf_counter() - self._written) * _SHARE >= self._cost:
            self._write(state(), None)

    def _finish(self, weights: W) -> None:
        """The training is over."""
        if self._path is not None and (self._found is None or self._found["final"] is None):
            self._write(None, weights)

    def _write(self, state: Any, final: W | None) -> None:
        began = time.perf_counter()
        vectors = [None if one is None else torch.from_numpy(one.vector) for one in (self.best, final)]
        assert self._path is not None
        write_checkpoint(
            self._path,
            self._run,
            {
                "part": self._part,
                "state": state,
                "history": self.history.to_json(),
                "best": vectors[0],
                "final": vectors[1],
            },
        )
        self._written = time.perf_counter()
        self._cost = self._written - began
