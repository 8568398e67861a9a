"""Where a run stands: which restart, stage and epoch comes next, and when to stop.

In: the loss and the measure of each epoch. Out: decisions that depend on nothing else, so that a resumed run makes the
same. Stage: learning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loopwise.learn.stages import Stage, epochs_of
from loopwise.loss.base import Measure


@dataclass
class Course:
    """The position of a run. All of it goes into checkpoints."""

    restart: int = 0
    stage: int = 0
    epoch: int = 0  # finished ones of this restart
    stage_epoch: int = 0  # finished ones of this stage
    allowed: int = 0  # epochs of this stage
    decided: int = 0  # finished ones in which decisions were trained: where schedules of temperatures stand
    scores: list[float] = field(default_factory=list)  # losses of this stage
    stale: int = 0  # epochs of this stage since the measure was last the best
    best_dev: float | None = None
    best_epoch: int | None = None
    ended: str = ""  # why the restart ended; empty while it goes on

    @staticmethod
    def begin(stages: Sequence[Stage], epochs: int, restart: int = 0) -> Course:
        """The start of a restart."""
        return Course(restart=restart, allowed=epochs_of(stages, 0, epochs))

    def after_epoch(
        self, stages: Sequence[Stage], epochs: int, patience: int | None, loss: float, better: bool | None
    ) -> None:
        """Counts an epoch and decides what comes next. ``better``: the measure is the best so far; None: no measure."""
        stage = stages[self.stage]
        self.epoch += 1
        self.stage_epoch += 1
        self.decided += isinstance(stage.goal, Measure)
        self.scores.append(loss)
        if better is not None:
            self.stale = 0 if better else self.stale + 1
        reason = self._over(stage, patience)
        if not reason:
            return
        if self.stage + 1 == len(stages):
            self.ended = reason
        else:
            self._next_stage(stages, epochs)

    def reopen(self, stages: Sequence[Stage], epochs: int) -> None:
        """Goes on with a run of one stage that only ended because its epochs did, if there are more of them now."""
        if len(stages) == 1 and self.ended.startswith("all ") and self.epoch < epochs:
            self.ended, self.allowed = "", epochs_of(stages, 0, epochs)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def _over(self, stage: Stage, patience: int | None) -> str:
        if stage.converged(self.scores):
            return f"converged in epoch {self.epoch}"
        if patience is not None and self.stale >= patience:
            return f"no better on the development data for {self.stale} epochs"
        if self.stage_epoch >= self.allowed:
            return f"all {self.epoch} epochs done"
        return ""

    def _next_stage(self, stages: Sequence[Stage], epochs: int) -> None:
        self.stage += 1
        self.allowed = epochs_of(stages, self.stage, epochs - self.epoch)
        self.stage_epoch = self.stale = 0
        self.scores = []
