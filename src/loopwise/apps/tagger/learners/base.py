"""What a learner is, what it tells while it works, and how it goes on after an interruption.

In: a problem with gold tags, weights to start from. Out: weights, a history. Stage: use.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.apps.watch import Rounds
from loopwise.formats.files import PathLike
from loopwise.learn.checkpoint import Run, read_checkpoint, write_checkpoint
from loopwise.learn.history import History

_SHARE = 0.1  # of the time, at most, goes into writing checkpoints


class Learner(Protocol):
    """A strategy for choosing weights: a frozen dataclass of options with this method."""

    @property
    def rounds(self) -> int:
        """How many times it will tell of its progress, at most."""
        ...

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        """Weights for the gold tags of ``problem``; ``start`` is not changed."""
        ...


@dataclass(frozen=True)
class Part:
    """A part of a training that begins, such as the likelihood before ERM.

    ``state``: what :meth:`Watch.keep` was given when it was interrupted, None: begin at the beginning. ``over``: a
    later part was interrupted, so that this one need not be done again.
    """

    state: Any = None
    over: bool = False


@dataclass
class Watch(Rounds[Weights]):
    """Hears of each round (epoch, iteration): keeps the history, the best weights on development data, the bar.

    With a checkpoint (:meth:`open`) a learner that calls :meth:`begin` before its first round and :meth:`keep` after
    each can be interrupted at any moment.
    """

    _path: PathLike | None = None
    _run: Run = field(default_factory=dict)
    _found: dict[str, Any] | None = None
    _part: int = -1
    _written: float = -float("inf")  # when
    _cost: float = 0.0  # seconds that it took

    def open(self, path: PathLike, run: Run, like: Weights) -> None:
        """Goes on from the checkpoint at ``path``, if there is one, and writes it from now on. ``like``: for shapes."""
        self._path, self._run, self._found = path, run, read_checkpoint(path, run)
        if self._found is not None:
            self.history = History.from_json(self._found["history"])
            best = self._found["best"]
            self.best = None if best is None else like.like(best.numpy().copy())

    def ended(self, like: Weights) -> Weights | None:
        """The weights of a training that the checkpoint says is over."""
        if self._found is None or self._found["final"] is None:
            return None
        return like.like(self._found["final"].numpy().copy())

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

    def finish(self, weights: Weights) -> None:
        """The training is over."""
        if self._path is not None and (self._found is None or self._found["final"] is None):
            self._write(None, weights)

    def _write(self, state: Any, final: Weights | None) -> None:
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
