"""Where a run stands: which restart, stage and epoch comes next, and when to stop.

In: the loss and the measure of each epoch. Out: decisions that depend on nothing else, so that a resumed run makes the
same. Stage: learning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


class Lasting(Protocol):
    """How long a stage is trained for: :class:`~loopwise.learn.stages.Stage`, or :class:`Rounds`."""

    @property
    def epochs(self) -> int | None:
        """At most so many; None: an even share of what is left."""

    def converged(self, scores: Sequence[float]) -> bool:
        """Whether the losses of the stage's epochs say that it may end."""


@dataclass(frozen=True)
class Rounds:
    """A stage of ``epochs`` rounds at most, None: as many as are left."""

    epochs: int | None = None

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"a stage must have at least 1 round, not {self.epochs}")

    def converged(self, scores: Sequence[float]) -> bool:
        """Only its objective knows."""
        return False


@dataclass
class TrainingPosition:
    """The position of a run. All of it goes into checkpoints."""

    restart: int = 0
    stage: int = 0
    epoch: int = 0  # finished ones of this restart
    stage_epoch: int = 0  # finished ones of this stage
    allowed: int = 0  # epochs of this stage
    fresh: bool = True  # no epoch of this stage has begun
    scores: list[float] = field(default_factory=list)  # losses of this stage
    stale: int = 0  # epochs of this stage since the measure was last the best
    best_dev: float | None = None
    best_epoch: int | None = None
    ended: str = ""  # why the restart ended; empty while it goes on

    @staticmethod
    def begin(stages: Sequence[Lasting], epochs: int, restart: int = 0) -> TrainingPosition:
        """The start of a restart."""
        return TrainingPosition(restart=restart, allowed=epochs_of(stages, 0, epochs))

    def after_epoch(
        self,
        stages: Sequence[Lasting],
        epochs: int,
        patience: int | None,
        loss: float,
        better: bool | None,
        own: str = "",
    ) -> None:
        """Counts an epoch and decides what comes next.

        ``better``: the measure is the best so far; None: no measure. ``own``: why the objective itself ends its stage.
        """
        self.epoch += 1
        self.stage_epoch += 1
        self.scores.append(loss)
        if better is not None:
            self.stale = 0 if better else self.stale + 1
        reason = own or self._over(stages[self.stage], patience)
        if reason:
            self.leave_stage(stages, epochs, reason)

    def leave_stage(self, stages: Sequence[Lasting], epochs: int, reason: str) -> None:
        """The stage is over, maybe before it had an epoch."""
        if self.stage + 1 == len(stages):
            self.ended = reason
        else:
            self._next_stage(stages, epochs)

    def reopen(self, stages: Sequence[Lasting], epochs: int) -> None:
        """Goes on with a run of one stage that only ended because its epochs did, if there are more of them now."""
        if len(stages) == 1 and self.ended.startswith("all ") and self.epoch < epochs:
            self.ended, self.allowed = "", epochs_of(stages, 0, epochs)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def _over(self, stage: Lasting, patience: int | None) -> str:
        if stage.converged(self.scores):
            return f"converged in epoch {self.epoch}"
        if patience is not None and self.stale >= patience:
            return f"no better on the development data for {self.stale} epochs"
        if self.stage_epoch >= self.allowed:
            return f"all {self.epoch} epochs done"
        return ""

    def _next_stage(self, stages: Sequence[Lasting], epochs: int) -> None:
        self.stage += 1
        self.allowed = epochs_of(stages, self.stage, epochs - self.epoch)
        self.stage_epoch = self.stale = 0
        self.scores, self.fresh = [], True


def epochs_of(stages: Sequence[Lasting], number: int, left: int) -> int:
    """How many epochs stage ``number`` may have when ``left`` of all are left at its start."""
    stage, later = stages[number], stages[number + 1 :]
    if stage.epochs is not None:
        return min(stage.epochs, left)
    promised = sum(other.epochs or 0 for other in later)
    sharing = 1 + sum(other.epochs is None for other in later)
    return min(left, max(1, -(-(left - promised) // sharing)))
