"""The trainer: rounds of an objective, and all that comes around a round.

In: an :class:`~loopwise.learn.objective.Objective`, :class:`Limits`. Out: its weights, changed; a
:class:`~loopwise.learn.history.History`. Stage: learning. What comes next is decided in :mod:`loopwise.learn.course`,
files are :mod:`loopwise.learn.files.ledger`'s.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from loopwise.learn.course import Lasting, Rounds, TrainingPosition
from loopwise.learn.distributed import ALONE, Team
from loopwise.learn.files.checkpoint import restoring
from loopwise.learn.files.ledger import Ledger
from loopwise.learn.history import Epoch, History
from loopwise.learn.objective import Callback, Objective, RoundError
from loopwise.learn.progress import Tell, silent

logger = logging.getLogger(__name__)


class TrainingError(ValueError):
    """Training cannot go on: a loss or gradient is not finite, or there is no gradient."""


@dataclass(frozen=True)
class Limits:
    """How long to train. ``epochs``: of all stages of a restart together.

    ``patience``: a stage ends after so many rounds without a new best on development data. ``from_start``: the weights
    that training begins with count as well, as round 0. ``reopens``: a training that ended because its epochs did goes
    on if it is later given more of them, which takes a larger file.
    """

    stages: tuple[Lasting, ...]
    epochs: int
    restarts: int = 1
    patience: int | None = None
    from_start: bool = False
    reopens: bool = False

    def __post_init__(self) -> None:
        if not self.stages or self.epochs < 1:
            raise ValueError(f"a training must have a stage and at least 1 epoch, not {self.epochs}")

    @staticmethod
    def rounds(*counts: int, patience: int | None = None) -> Limits:
        """So many rounds for each stage."""
        return Limits(tuple(Rounds(count) for count in counts), sum(counts), patience=patience)


def train(
    objective: Objective,
    limits: Limits,
    *,
    ledger: Ledger | None = None,
    name: str = "training",
    callbacks: Sequence[Callback] = (),
    tell: Tell = silent,
    team: Team = ALONE,
) -> History:
    """Runs rounds until the limits or the objective say that it is enough; the objective then has the best weights.

    Parameters
    ----------
    ledger, name:
        The file of the run and what this training is called in it: an interrupted one goes on, a finished one is not
        repeated.
    callbacks:
        Each is called after each round (and its checkpoint); any that gives True ends training.
    tell:
        Is told how many rounds are done, fractions included, and what is happening.
    team:
        Processes that train the same objective together: the first of them writes files and has the callbacks.
    """
    training = _Training(objective, limits, Ledger() if ledger is None else ledger, name)
    if training.resume():
        return training.history
    while not training.over:
        epoch = training.round(tell)
        if team.from_first(partial(training.after, epoch, callbacks)) and epoch is not None:
            training.history.ended = f"ended by the callback after epoch {epoch.number}"
            break
    return training.finish()


class _Training:
    """One call of :func:`train` in progress."""

    def __init__(self, objective: Objective, limits: Limits, ledger: Ledger, name: str) -> None:
        self.objective, self.limits, self.ledger, self.name = objective, limits, ledger, name
        self.sign = -1.0 if objective.higher_is_better else 1.0
        self.course = TrainingPosition.begin(limits.stages, limits.epochs)
        self.history = History()
        self.best: Any = None  # weights of this restart, by the development data
        self.kept: tuple[float, Any, TrainingPosition] | None = None  # of the restarts so far

    @property
    def over(self) -> bool:
        return bool(self.course.ended) and self.course.restart + 1 >= self.limits.restarts

    def round(self, tell: Tell) -> Epoch | None:
        """One round, with all that goes before and after it; None if the stage was over without one."""
        began = time.perf_counter()
        if self.course.ended:
            self.course = TrainingPosition.begin(self.limits.stages, self.limits.epochs, self.course.restart + 1)
        self._begin()
        course, limits = self.course, self.limits
        before = course.restart * limits.epochs + course.epoch
        loss = None if self.objective.ended else self._loss(lambda share, text: tell(before + share, text))
        if loss is None:
            course.leave_stage(limits.stages, limits.epochs, self.objective.ended or "there was nothing left to do")
            self._note_end()
            return None
        dev = self.objective.measure()
        better = None if dev is None else self._note_best(dev, course.epoch + 1)
        epoch = Epoch(
            course.epoch + 1, loss, time.perf_counter() - began, course.stage, course.restart, dev, self.objective.gains
        )
        self.history.epochs.append(epoch)
        measured = "" if dev is None else f", development data {dev:.6g}"
        logger.info("epoch %d of %d: loss %.6g%s, %.1f s", epoch.number, limits.epochs, loss, measured, epoch.seconds)
        tell(before + 1, f"epoch {epoch.number}, loss {loss:.5g}{measured}")
        course.after_epoch(limits.stages, limits.epochs, limits.patience, loss, better, self.objective.ended)
        self._note_end()
        return epoch

    def after(self, epoch: Epoch | None, callbacks: Sequence[Callback]) -> bool:
        """Keeps what was learnt and tells of it; whether any callback ends training."""
        self.keep()
        answers = [callback(epoch) for callback in callbacks] if epoch is not None else []  # all hear of it
        return any(answers)

    def _begin(self) -> None:
        """What is done before the first round of a restart or of a stage."""
        course = self.course
        if not course.fresh:
            return
        course.fresh = False
        self.objective.begin(course.restart, course.stage)
        if course.epoch == 0 and course.stage == 0:
            self.best = None
            first = self.objective.measure() if self.limits.from_start else None
            if first is not None:
                self._note_best(first, 0)

    def _loss(self, tell: Tell) -> float | None:
        try:
            return self.objective.round(tell)
        except RoundError as problem:
            raise self._failed(problem) from problem.__cause__

    def _failed(self, problem: RoundError) -> TrainingError:
        """Puts the best weights back, if any are known, and says which there are now."""
        done = self.course.epoch
        kept = "at the start" if not done else f"after epoch {done}"
        if self.best is not None:
            self.objective.set_weights(self.best)
            kept = "of the best epoch"
        return TrainingError(f"{problem}: training stopped, and the weights are those {kept}{problem.advice}")

    def _note_best(self, dev: float, number: int) -> bool:
        course, sign = self.course, self.sign
        better = course.best_dev is None or not sign * dev >= sign * course.best_dev  # a best that is NaN is none
        if better:
            course.best_dev, course.best_epoch = dev, number
            self.best = self.objective.weights()
        return better

    def _note_end(self) -> None:
        """At the end of a restart keeps its weights if they are the best."""
        course = self.course
        if not course.ended:
            return
        if course.best_dev is not None:
            score = self.sign * course.best_dev
        else:
            score = self.objective.loss() if self.limits.restarts > 1 else 0.0
        better = self.kept is None or score < self.kept[0] or math.isnan(self.kept[0])
        logger.info("run %d ended: %s%s", course.restart + 1, course.ended, "" if better else " (not the best)")
        if better and (self.best is not None or self.limits.restarts > 1):
            self.kept = score, self.objective.weights() if self.best is None else self.best, course

    def finish(self) -> History:
        """Puts the best weights in place."""
        course = self.course
        if self.kept is not None:
            _, weights, course = self.kept
            self.objective.set_weights(weights)
        elif self.best is not None:  # ended by the callback within the first restart
            self.objective.set_weights(self.best)
        self.history.restart, self.history.best = course.restart, course.best_epoch
        self.history.ended = self.history.ended or course.ended
        if self.over and not self.limits.reopens:  # else it may go on from where the callback ended it
            self.ledger.finish(
                self.name, lambda: {"weights": self.objective.weights(), "history": self.history.to_json()}
            )
        return self.history

    # --- Checkpoints -------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Writes everything that later rounds depend on."""
        if not self.over or self.limits.reopens:
            self.ledger.keep(self.name, self._state)

    def _state(self) -> dict[str, Any]:
        kept = None if self.kept is None else (self.kept[0], self.kept[1], self.kept[2].to_json())
        return {
            "objective": self.objective.state(),
            "best": self.best,
            "kept": kept,
            "course": self.course.to_json(),
            "history": self.history.to_json(),
        }

    def resume(self) -> bool:
        """Goes to where the ledger was written, if there is one; True: the training was finished."""
        ledger, path = self.ledger, self.ledger.path
        with nullcontext() if path is None else restoring(path):
            if self.name in ledger.finished:
                done = ledger.finished[self.name]
                self.objective.set_weights(done["weights"])
                self.history = History.from_json(done["history"])
                return True
            state = ledger.under_way(self.name)
            if state is not None:
                self._go_to(state)
        return False

    def _go_to(self, state: Mapping[str, Any]) -> None:
        self.course = TrainingPosition(**state["course"])
        self.history = History.from_json(state["history"])
        self.best = state["best"]
        self.kept = None if state["kept"] is None else (*state["kept"][:2], TrainingPosition(**state["kept"][2]))
        self.objective.load_state(state["objective"])
        logger.info(
            "resumed from %s after epoch %d of run %d", self.ledger.path, self.course.epoch, self.course.restart + 1
        )
        if self.limits.restarts == 1:
            self.course.reopen(self.limits.stages, self.limits.epochs)
            if not self.course.ended:
                self.kept = None
