r"""What the trainer asks of anything that learns: one round at a time, and its state between rounds.

In: whatever an objective is made of. Out: :class:`Objective`, which :func:`loopwise.learn.trainer.train` runs. Stage:
learning.

There is one trainer, and many things that are trained: a system by mini-batches, a chain by L-BFGS over all sentences,
label sets by a perceptron, a parser by lazy AdaGrad over hashed features, a ranking inside a walk. They differ in what
a *round* is (an epoch of steps, an iteration of L-BFGS, a walk over every document) and in what it changes. They do not
differ in what comes around a round, and that is the trainer's alone: how many there may be, stages and restarts,
development data and early stopping, the history, the progress bar, callbacks, and a checkpoint from which an
interrupted training goes on to the same weights, bit for bit.

An objective subclasses :class:`Objective` and writes five methods:

``round(tell)``
    one round; gives its loss, or None if there was nothing left to do. It may ``tell(share, text)`` how much of the
    round is over, and what to write beside the bar;
``weights()``, ``set_weights(weights)``
    the weights that training would end with now, as a copy, and back. Where answers are averages these are the
    averages, not the weights of the next step. The trainer keeps those of the best round, and puts them back;
``state()``, ``load_state(state)``
    everything that later rounds depend on: weights of the next step, what an optimiser remembers, generators of random
    numbers. Both kinds are opaque to the trainer; they must be what a checkpoint can hold: tensors, numbers, strings,
    None, and lists, tuples and mappings of these.

Others have answers that do for most:

``begin(restart, stage)``
    is called before the first round of each stage, never on resuming within one;
``ended``
    why no further round of this stage makes sense, empty while there may be one;
``measure()``
    of the weights that training would end with, on development data; None without such data. ``higher_is_better`` says
    which of two is better;
``loss()``
    of the weights as they are, on all training data: what restarts are compared by without development data;
``gains``
    the least, the median and the largest step size, for the history.

A round that cannot be finished raises :class:`RoundError`, with weights as they were before it: the trainer puts the
best weights back and says what is left. Rounds must not depend on anything but the objective's state (no global random
numbers, no time), or resuming changes what is learnt.

>>> import torch
>>> from loopwise.learn.trainer import Limits, train
>>> class Halving(Objective):
...     def __init__(self): self.place = 1.0
...     def round(self, tell):
...         self.place /= 2
...         return self.place**2
...     def weights(self): return self.place
...     def set_weights(self, weights): self.place = weights
...     def state(self): return self.place
...     def load_state(self, state): self.place = state
>>> history = train(Halving(), Limits.rounds(3))
>>> history.losses, history.ended
([0.25, 0.0625, 0.015625], 'all 3 epochs done')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from loopwise.learn.history import Epoch
from loopwise.learn.progress import Tell

Callback = Callable[[Epoch], "bool | None"]  # called after each round and its checkpoint; True ends training


class RoundError(Exception):
    """A round cannot be finished: a loss or a gradient is not finite, or there is none. ``advice``: what may help."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice


class Objective(ABC):
    """Something that is minimised round by round, with the weights it changes; see the module for what each means."""

    @abstractmethod
    def round(self, tell: Tell) -> float | None:
        """One round: its loss, or None if there was nothing left to do, and then ``ended`` says why."""

    @abstractmethod
    def weights(self) -> Any:
        """A copy of the weights that training would end with now."""

    @abstractmethod
    def set_weights(self, weights: Any) -> None:
        """Ends with these; further rounds may begin anew from them."""

    @abstractmethod
    def state(self) -> Any:
        """Everything that later rounds depend on."""

    @abstractmethod
    def load_state(self, state: Any) -> None:
        """Goes to where :meth:`state` was asked."""

    def begin(self, restart: int, stage: int) -> None:  # noqa: B027
        """The first round of a stage comes next."""

    @property
    def ended(self) -> str:
        """Why this stage is over; empty while it goes on."""
        return ""

    def measure(self) -> float | None:
        """How good :meth:`weights` are on development data."""
        return None

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger :meth:`measure` is a better one."""
        return False

    def loss(self) -> float:
        """Of the weights as they are, over all training data."""
        raise NotImplementedError(f"{type(self).__name__} has no loss of its own to compare restarts by")

    @property
    def gains(self) -> tuple[float, float, float] | None:
        """The least, the median and the largest step size, if there are any."""
        return None
