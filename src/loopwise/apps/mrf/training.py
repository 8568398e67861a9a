"""Training the system of a table: all rows at once by L-BFGS, or by any stochastic optimiser.

In: a system, examples, stages. Out: changed weights, a :class:`History`. Stage: use; the work is done by
:func:`loopwise.learn.fit`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from loopwise.graph.evidence import Role
from loopwise.learn.examples import Examples
from loopwise.learn.fit import fit
from loopwise.learn.history import Epoch, History
from loopwise.learn.optim.lbfgs import LBFGS
from loopwise.learn.plan import MakeOptimizer
from loopwise.learn.progress import Tell, progress_bar
from loopwise.learn.stages import Stage
from loopwise.learn.system import CHUNK, System
from loopwise.potentials.priors import L2

ROUNDS = 5  # of L-BFGS where the decoder must see all rows now and then: a corpus threshold
ROWS = 32  # a step of a stochastic optimiser


@dataclass(frozen=True, eq=False)
class Options:
    """How to train. ``optimizer`` None: L-BFGS."""

    optimizer: MakeOptimizer | None
    iterations: int
    tolerance: float
    l2: float
    batch: int | None
    seed: int

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations must be at least 1, not {self.iterations}")
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must be at least 0 and below 1, not {self.tolerance}")
        if not 0 <= self.l2 < float("inf"):
            raise ValueError(f"l2 must be a finite number, at least 0, not {self.l2}")

    def epochs(self, system: System) -> int:
        """How many epochs a goal is trained for: of L-BFGS each is a minimisation."""
        if self.optimizer is not None:
            return self.iterations
        return min(ROUNDS, self.iterations) if system.decoder.needs_refresh else 1


@dataclass
class _Notes:
    """Hears of every iteration of L-BFGS: keeps the history, moves the bar."""

    tell: Tell
    history: History = field(default_factory=History)
    stage: int = 0
    since: float = field(default_factory=time.perf_counter)

    def iteration(self, number: int, loss: float) -> None:
        now, count = time.perf_counter(), len(self.history.epochs) + 1
        self.history.epochs.append(Epoch(count, loss, now - self.since, self.stage))
        self.since = now
        self.tell(count, f"iteration {count}, loss {loss:.5g}")

    def epoch(self, epoch: Epoch) -> None:
        self.stage = epoch.stage + 1  # of what comes next, unless the stage goes on
        self.since = time.perf_counter()


def train(system: System, examples: Examples, stages: Sequence[Stage], options: Options, progress: bool) -> History:
    """Minimises the goals one after another; of L-BFGS the history has every iteration."""
    epochs = sum(stage.epochs or 0 for stage in stages)
    prior = L2(options.l2 / max(_rows_that_count(examples, stages[-1]), 1)) if options.l2 else None
    if options.optimizer is not None:
        return fit(
            system,
            examples,
            stages,
            optimizer=options.optimizer,
            epochs=epochs,
            batch=ROWS if options.batch is None else options.batch,
            prior=prior,
            seed=options.seed,
            progress=progress,
        )
    iterations = -(-options.iterations // options.epochs(system))
    with progress_bar(progress, iterations * epochs) as tell:
        notes = _Notes(tell)

        def make(params: list[torch.Tensor]) -> torch.optim.Optimizer:
            return LBFGS(params, iterations, loss_tolerance=options.tolerance, callback=notes.iteration)

        whole = fit(
            system,
            examples,
            stages,
            optimizer=make,
            epochs=epochs,
            batch=CHUNK if options.batch is None else options.batch,
            prior=prior,
            seed=options.seed,
            callback=notes.epoch,
            progress=False,
        )
    notes.history.ended = whole.ended
    return notes.history


def _rows_that_count(examples: Examples, stage: Stage) -> int:
    """Those over which the loss is a mean: rows without any label do not count, unless inputs are scored as well."""
    roles = (Role.INPUT, Role.OUTPUT) if getattr(stage.goal, "joint", False) else (Role.OUTPUT,)
    return int(np.isin(examples.known_roles, roles).any(axis=1).sum())
