"""The options of a run of training, checked before anything is run.

In: what the user asked for. Out: a :class:`FitPlan`. Stage: learning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from loopwise.arguments import checked_whole
from loopwise.formats.files import PathLike
from loopwise.learn.data.batching import BatchSize, TotalSize
from loopwise.learn.evaluate import Goal
from loopwise.learn.objective import Callback
from loopwise.learn.stages import Goals, Stage, as_stages, check_budget, target
from loopwise.learn.system import Given
from loopwise.potentials.priors import Prior

MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
MakeSchedule = Callable[[torch.optim.Optimizer], LRScheduler]


class FitKeywords(TypedDict, total=False):
    """Options of :func:`~loopwise.fit` that whatever calls it hands on as they are."""

    epochs: int
    batch: BatchSize | None
    dev: Given
    patience: int | None
    clip: float | None
    seed: int
    checkpoint: PathLike | None
    callback: Callback | Sequence[Callback] | None
    progress: bool


@dataclass(frozen=True, eq=False)
class FitPlan:
    """The options of :func:`~loopwise.fit`, checked."""

    stages: tuple[Stage, ...]
    optimizer: MakeOptimizer | torch.optim.Optimizer | None  # None: Adam, its rate probed
    epochs: int
    batch: BatchSize | None  # None: as is usual for the examples
    dev: Given
    measure: Goal
    patience: int | None
    seed: int
    clip: float | None
    prior: Prior | None
    schedule: MakeSchedule | None
    restarts: int
    start: float | None
    by_pattern: bool | None

    @staticmethod
    def of(
        goal: Goals,
        optimizer: MakeOptimizer | torch.optim.Optimizer | None,
        epochs: int,
        batch: BatchSize | None,
        dev: Given,
        measure: Goal | None,
        patience: int | None,
        seed: int,
        *others: Any,
    ) -> FitPlan:
        """Refuses options that make no sense, before anything is run."""
        stages = as_stages(goal)
        check_budget(stages, epochs)
        if dev is None and (measure is not None or patience is not None):
            option = "measure" if measure is not None else "patience"
            raise ValueError(f"{option} is about development data: give dev (--dev), examples that are not trained on")
        measure = target(stages) if measure is None else measure
        plan = FitPlan(stages, optimizer, epochs, batch, dev, measure, patience, seed, *others)
        plan._check()
        return plan

    def _check(self) -> None:
        for name, value, least in (
            ("batch", None if isinstance(self.batch, TotalSize) else self.batch, 1),
            ("restarts", self.restarts, 1),
            ("seed", self.seed, 0),
            ("patience", self.patience, 1),
        ):
            if value is not None:
                checked_whole(name, value, least)
        for name, number in (("clip", self.clip), ("start", self.start)):
            if number is not None and not 0 < number < math.inf:
                raise ValueError(f"{name} must be a positive number or None, not {number}")
        if self.prior is not None and not isinstance(self.prior, Prior):
            raise ValueError(f"prior must be a penalty such as lw.prior.L2(0.01), not {self.prior!r}")
        made = isinstance(self.optimizer, torch.optim.Optimizer)
        if self.optimizer is not None and not made and not callable(self.optimizer):
            raise ValueError(
                f"optimizer must be a class such as torch.optim.Adam or lw.optim.SMD, or a function of the parameters "
                f"that makes an optimiser, not {self.optimizer!r}; leave it out for Adam at a rate that is found"
            )
        if made and self.restarts > 1:
            raise ValueError(
                "restarts need an optimiser each: give its class, or a function of the parameters that makes it"
            )

    @property
    def finds_rate(self) -> bool:
        """Whether the rate is probed, since no optimiser is named."""
        return self.optimizer is None

    @property
    def sign(self) -> float:
        """-1 for measures of which more is better."""
        return -1.0 if getattr(self.measure, "higher_is_better", False) else 1.0
