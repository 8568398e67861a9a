"""Linear models of hashed features, trained online: batches, lazy updates, any number of threads.

In: a model that lists the features of its parts and gives the adjoints of their scores, a size, settings. Out:
:class:`HashedObjective`, whose rounds :func:`loopwise.learn.trainer.train` runs. Stage: learning. The work of a batch
is shared among threads twice over: examples are read and differentiated chunk by chunk, and weights are found and
updated range by range. Sums run in the order of the examples either way, so results do not depend on the number of
threads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.graph.factor_graph import Integers
from loopwise.learn.objective import Objective
from loopwise.learn.optim.hashed import Floats, HashedTable, Small, find_weights, pack, unpack, update_weights
from loopwise.learn.optim.probe import probe
from loopwise.learn.progress import Tell

Doubles = NDArray[np.float64]
COUNTS = ("epochs", "batch", "patience", "threads")


class HashedModel(ABC):
    """Examples whose parts have scores, each the sum of the weights of its features; and a loss of these scores."""

    @abstractmethod
    def costs(self) -> Doubles:
        """About how much work each example is, ``[examples]``."""

    @abstractmethod
    def build(self, chosen: Integers, size: int) -> tuple[Any, ...]:
        """The parts of some examples; the last two arrays: which of ``size`` weights each part reads, ``start`` and
        ``index``."""

    @abstractmethod
    def step(
        self, chosen: Integers, parts: tuple[Any, ...], position: Small, weights: Floats, scale: float, share: float
    ) -> tuple[Doubles, Doubles]:
        """``scale`` times the adjoints of the parts, and the loss of each example. ``position``: where the weight of
        each feature stands in ``weights``. ``share`` of the run is over."""

    def refuse(self, example: int, loss: float) -> None:
        """Raises what there is to say of a loss that is not finite."""
        raise ValueError(f"the loss of training example {example + 1} is {loss}; try a lower rate")


@dataclass(frozen=True)
class OnlineSettings:
    """How a table is trained. l2: the strength of the prior is this over the number of examples."""

    epochs: int = 10
    batch: int = 15
    rate: float = 0.01
    l2: float = 0.0
    patience: int | None = None
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for name, value, right in [
            ("epochs", self.epochs, self.epochs >= 1),
            ("batch", self.batch, self.batch >= 1),
            ("rate", self.rate, self.rate > 0 and math.isfinite(self.rate)),
            ("l2", self.l2, self.l2 >= 0 and math.isfinite(self.l2)),
            ("patience", self.patience, self.patience is None or self.patience >= 1),
            ("threads", self.threads, self.threads >= 1),
        ]:
            if not right:
                least = "at least 1" if name in COUNTS else "positive" if name == "rate" else "at least 0, and finite"
                raise ValueError(f"{name} must be {least}, not {value}")


class HashedObjective(Objective):
    """A table of ``size`` weights, trained by AdaGrad with composite mirror descent; a round is an epoch.

    ``make`` gives the model, once there is a round to run. ``start``: weights to begin with instead of 0. ``evaluate``:
    of weights on development data, higher is better. ``probe``: find a rate first, by trials on a tenth of the data.
    """

    def __init__(
        self,
        make: Callable[[], HashedModel],
        size: int,
        settings: OnlineSettings,
        *,
        start: Floats | None = None,
        evaluate: Callable[[Floats], float] | None = None,
        probe: bool = False,
    ) -> None:
        self.size, self.settings, self.start = size, settings, start
        self._make, self._evaluate, self._probe = make, evaluate, probe
        self._model: HashedModel | None = None
        self._table: HashedTable | None = None
        self._costs = np.zeros(0)
        self._ended: Floats | None = None  # weights that training ended with
        self.epoch = 0

    @property
    def result(self) -> Floats:
        """The weights as they are, ``[size]``."""
        return self._running()[1].copy_weights() if self._ended is None else self._ended

    def begin(self, restart: int, stage: int) -> None:
        model, table = self._running()
        if self.start is not None:
            table.start_from(self.start, self.settings.l2 > 0)
        if self._probe:
            self.settings = probe_rate(model, table, self.settings)

    def round(self, tell: Tell) -> float:
        """One pass; the mean loss of the examples, each as it was before its step."""
        model, table = self._running()
        settings, number, count = self.settings, self.epoch + 1, len(self._costs)
        batches, l2 = batches_of(count, settings.batch, settings.seed, number), settings.l2 / max(1, count)
        updates, total, done = settings.epochs * len(batches), 0.0, 0
        for place, chosen in enumerate(batches):
            share = ((number - 1) * len(batches) + place) / max(1, updates - 1)
            losses = batch_step(model, table, chosen, self._costs, share, settings.rate, l2, settings.threads)
            total, done = total + float(losses.sum()), done + len(chosen)
            tell((place + 1) / len(batches), f"epoch {number}, loss {total / done:.3f}")
        table.flush(settings.rate, l2)
        self.epoch = number
        return total / max(1, done)

    def loss(self) -> float:
        model, table = self._running()
        settings, count = self.settings, len(self._costs)
        pieces = [np.arange(begin, min(begin + settings.batch, count)) for begin in range(0, count, settings.batch)]
        found = [
            batch_step(model, table, piece, self._costs, 1.0, settings.rate, 0.0, settings.threads, update=False)
            for piece in pieces
        ]
        return float(np.concatenate(found).mean())

    def measure(self) -> float | None:
        return None if self._evaluate is None else self._evaluate(self.result)

    @property
    def higher_is_better(self) -> bool:
        return True

    def weights(self) -> dict[str, Tensor]:
        return pack(self.result)

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        self._ended, self._table = unpack(weights, self.size), None

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "rate": self.settings.rate, "table": self._running()[1].state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.epoch, self.settings = state["epoch"], replace(self.settings, rate=state["rate"])
        self._running()[1].restore(state["table"])

    def _running(self) -> tuple[HashedModel, HashedTable]:
        """Made when first asked for: a training that is finished needs neither."""
        if self._model is None:
            self._model = self._make()
            self._costs = self._model.costs()
        if self._table is None:
            self._table = HashedTable(self.size)
        return self._model, self._table


def part_scores(start: Integers, position: Small, weights: Floats) -> Doubles:
    """The score of each part, as :meth:`HashedModel.step` is given its features."""
    from loopwise.learn.kernels.hashed import sum_parts

    scores: Doubles = sum_parts(start, position, weights)
    return scores


def batches_of(count: int, batch: int, seed: int, epoch: int) -> list[Integers]:
    """A random order of the examples, cut into batches; it depends on nothing but the arguments."""
    order = np.random.default_rng([seed, epoch]).permutation(count)
    return [order[begin : begin + batch] for begin in range(0, count, batch)]


def split_by_cost(chosen: Integers, costs: Doubles, parts: int) -> list[Integers]:
    """``chosen`` in at most ``parts`` runs of about equal cost, in order."""
    if parts <= 1 or len(chosen) < 2:
        return [chosen]
    total = np.cumsum(costs)
    cuts = np.unique(np.searchsorted(total, total[-1] * np.arange(1, parts) / parts, side="right"))
    return [piece for piece in np.split(chosen, cuts) if len(piece)]


def batch_step(
    model: HashedModel,
    table: HashedTable,
    chosen: Integers,
    costs: Doubles,
    share: float,
    rate: float,
    l2: float,
    threads: int,
    update: bool = True,
) -> Doubles:
    """One step on the mean loss of the examples ``chosen``; the loss of each as it was before. O(features)."""
    chunks = split_by_cost(chosen, costs[chosen], threads)
    parts = in_threads(len(chunks), lambda place: model.build(chunks[place], table.size))
    found = find_weights(table, [(part[-1], part[-2]) for part in parts], rate, l2, threads)
    steps = in_threads(
        len(chunks),
        lambda place: model.step(
            chunks[place], parts[place], found.positions(place), found.weights, 1.0 / len(chosen), share
        ),
    )
    losses: Doubles = np.concatenate([loss for _, loss in steps])
    if not np.isfinite(losses).all():
        place = int(np.flatnonzero(~np.isfinite(losses))[0])
        model.refuse(int(np.concatenate(chunks)[place]), float(losses[place]))
    if update:
        update_weights(table, found, [adjoint for adjoint, _ in steps], rate, l2)
    return losses


def probe_rate(
    model: HashedModel, table: HashedTable, settings: OnlineSettings, start: float = 0.05, trials: int = 10
) -> OnlineSettings:
    """Settings with the rate that a ladder of trials on a tenth of the data finds best, halved for safety.

    :func:`loopwise.learn.optim.probe` with this rule: double until training is worse than none, then halve.
    """
    costs = model.costs()
    l2 = settings.l2 / max(1, len(costs))
    sample = np.random.default_rng([settings.seed, 0]).permutation(len(costs))
    sample = sample[: max(1, len(sample) // 10)]
    pieces = [sample[begin : begin + settings.batch] for begin in range(0, len(sample), settings.batch)]

    def step(chosen: Integers, rate: float, strength: float, update: bool = True) -> Tensor:
        losses = batch_step(model, table, chosen, costs, 0.0, rate, strength, settings.threads, update)
        return torch.tensor(float(losses.mean()))

    @dataclass(frozen=True, eq=False)
    class Batch:
        chosen: Integers

        def __call__(self) -> Tensor:
            return step(self.chosen, settings.rate, 0.0, update=False)

    class Trial:
        def __init__(self, rate: float) -> None:
            self.rate = rate
            table.forget()

        def step_on(self, batch: Batch) -> Tensor:
            return step(batch.chosen, self.rate, l2)

        def flush(self) -> None:
            table.flush(self.rate, l2)

    weights = torch.from_numpy(table.cells)[:, 0]  # the very memory
    found = probe(
        [weights],
        lambda _, rate: cast("torch.optim.Optimizer", Trial(rate)),
        [Batch(piece) for piece in pieces],
        start=start,
        trials=trials,
        safety=0.5,
    )
    table.forget()
    return replace(settings, rate=found.rate)
