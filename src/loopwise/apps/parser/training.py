"""The training loop of hashed linear models: batches, lazy updates, epochs, early stopping.

In: a task and a table of weights. Out: changed weights, a record of each epoch. Stage: use. The work of a batch is
shared among threads twice over: sentences are read and differentiated chunk by chunk, and weights are found and updated
range by range. Sums run in the order of the sentences either way, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.parser.arcs import split_by_cost
from loopwise.apps.parser.gathered import find_weights, update_weights
from loopwise.apps.parser.table import Floats, Table
from loopwise.apps.parser.tasks import Task
from loopwise.apps.parser.vocabulary import Integers
from loopwise.kernels.threads import in_threads
from loopwise.learn.history import Epoch
from loopwise.learn.optim.probe import probe
from loopwise.learn.progress import Tell
from loopwise.notices import GradientError

# A word's arcs read a hundred weights each, and the first steps of AdaGrad move every one of them by the rate. 0.1,
# common elsewhere, saturates beliefs within a batch, and a loss of beliefs then has no slope left (measured on EWT).
RATE = 0.01


@dataclass(frozen=True)
class Settings:
    """How a table is trained. l2: the strength of the prior is this over the number of sentences."""

    epochs: int = 10
    batch: int = 15
    rate: float = RATE
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


COUNTS = ("epochs", "batch", "patience", "threads")


@dataclass
class Progress:
    """Where training of one table stands: what a checkpoint holds beside the weights."""

    epochs: list[Epoch]
    best: int | None = None  # the number of the best epoch on development data
    best_dev: float = -math.inf
    ended: str = ""


def batches_of(count: int, batch: int, seed: int, epoch: int) -> list[Integers]:
    """A random order of the sentences, cut into batches; it depends on nothing but the arguments."""
    order = np.random.default_rng([seed, epoch]).permutation(count)
    return [order[begin : begin + batch] for begin in range(0, count, batch)]


def batch_step(
    task: Task, table: Table, chosen: Integers, share: float, rate: float, l2: float, threads: int, update: bool = True
) -> Floats:
    """One step on the mean loss of the sentences ``chosen``; the loss of each as it was before. O(features)."""
    costs = task.corpus.lengths[chosen].astype(np.float64) ** 2
    chunks = split_by_cost(chosen, costs, threads)
    parts = in_threads(len(chunks), lambda place: task.build(chunks[place], table.size))
    found = find_weights(table, [(part[-1], part[-2]) for part in parts], rate, l2, threads)
    steps = in_threads(
        len(chunks),
        lambda place: task.step(
            chunks[place], parts[place], found.positions(place), found.weights, 1.0 / len(chosen), share
        ),
    )
    losses: Any = np.concatenate([loss for _, loss in steps])
    if not np.isfinite(losses).all():
        _complain(task, np.concatenate(chunks), losses)
    if update:
        update_weights(table, found, [adjoint for adjoint, _ in steps], rate, l2)
    return cast("Floats", losses)


def train_table(
    task: Task,
    table: Table,
    settings: Settings,
    *,
    stage: int = 0,
    progress: Progress | None = None,
    evaluate: Callable[[], float] | None = None,
    after: Callable[[Progress, Floats | None], None] | None = None,
    best: Floats | None = None,
    tell: Tell = lambda done, text: None,
) -> Progress:
    """All epochs, or those that ``progress`` has not seen; the weights of the best epoch are kept.

    ``evaluate``: a measure of the present weights, higher is better; ``after``: is told of each finished epoch and the
    best weights so far; ``best``: these, of an earlier part of the run.
    """
    now = Progress([]) if progress is None else progress
    count = len(task.corpus)
    l2 = settings.l2 / max(1, count)
    stale = 0 if now.best is None else len(now.epochs) - now.best
    while not now.ended:
        begin, number = time.perf_counter(), len(now.epochs) + 1
        loss = run_epoch(task, table, settings, number, l2, tell)
        table.flush(settings.rate, l2)
        dev = evaluate() if evaluate is not None else None
        if dev is not None:
            if dev > now.best_dev:
                now.best, now.best_dev, stale, best = number, dev, 0, table.copy_weights()
            else:
                stale += 1
        now.epochs.append(Epoch(number, loss, time.perf_counter() - begin, stage=stage, dev=dev))
        if settings.patience is not None and stale >= settings.patience:
            now.ended = f"no better on the development data for {stale} epochs"
        elif number >= settings.epochs:
            now.ended = f"all {number} epochs done"
        if after is not None:
            after(now, best)
    if best is not None:
        table.set_weights(best)
    return now


def run_epoch(task: Task, table: Table, settings: Settings, number: int, l2: float, tell: Tell) -> float:
    """One pass; the mean loss of the sentences, each as it was before its step."""
    batches = batches_of(len(task.corpus), settings.batch, settings.seed, number)
    updates, total, done = settings.epochs * len(batches), 0.0, 0
    for place, chosen in enumerate(batches):
        share = ((number - 1) * len(batches) + place) / max(1, updates - 1)
        total += float(batch_step(task, table, chosen, share, settings.rate, l2, settings.threads).sum())
        done += len(chosen)
        tell(number - 1 + (place + 1) / len(batches), f"epoch {number}, loss {total / done:.3f}")
    return total / max(1, done)


def probe_rate(task: Task, table: Table, settings: Settings, start: float = 0.05, trials: int = 10) -> Settings:
    """Settings with the rate that a ladder of trials on a tenth of the data finds best, halved for safety.

    :func:`loopwise.learn.optim.probe` with the parser's rule: double until training is worse than none, then halve.
    """
    l2 = settings.l2 / max(1, len(task.corpus))
    sample = np.random.default_rng([settings.seed, 0]).permutation(len(task.corpus))
    sample = sample[: max(1, len(sample) // 10)]
    pieces = [sample[begin : begin + settings.batch] for begin in range(0, len(sample), settings.batch)]

    @dataclass(frozen=True, eq=False)
    class Batch:
        chosen: Integers

        def __call__(self) -> Tensor:
            losses = batch_step(task, table, self.chosen, 0.0, settings.rate, 0.0, settings.threads, update=False)
            return torch.tensor(float(losses.mean()))

    class Trial:
        def __init__(self, rate: float) -> None:
            self.rate = rate
            table.forget()

        def step_on(self, batch: Batch) -> Tensor:
            losses = batch_step(task, table, batch.chosen, 0.0, self.rate, l2, settings.threads)
            return torch.tensor(float(losses.mean()))

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


def _complain(task: Task, chosen: Integers, losses: Any) -> None:
    place = int(np.flatnonzero(~np.isfinite(losses))[0])
    sentence = int(chosen[place]) + 1
    if np.isposinf(losses[place]):
        raise GradientError(
            f"belief propagation of training sentence {sentence} has not settled, so perturbation has no gradient to "
            "give; allow more iterations, or use Unroll"
        )
    raise ValueError(f"the arcs left of training sentence {sentence} hold no tree; prune less")
