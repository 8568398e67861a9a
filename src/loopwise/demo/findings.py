"""The demo as a whole: all trials and images, on as many processes as there are cores, and what they add up to.

In: how much to run, a seed. Out: :class:`Findings`. Processes, not threads: steps this small spend much of their time
in Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from loopwise.compiled.threads import available_threads
from loopwise.demo.image import ImageAmounts, Restored, restore
from loopwise.demo.trials import (
    LIKELIHOOD,
    LOSS,
    TRUTH,
    DemoAmounts,
    DemoModel,
    DemoOutcome,
    Floats,
    draw_problem,
    run_trial,
    trials,
)
from loopwise.demo.workers import completed, one_thread, worker_pool
from loopwise.loss.calibration import Reliability

MOST_WORKERS = 4  # more would compile longer than they train


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that the demo shows."""

    amounts: DemoAmounts
    image: ImageAmounts
    seed: int
    outcomes: Sequence[DemoOutcome]
    restored: Sequence[Restored] = ()
    seconds: float = 0.0
    workers: int = 1

    def of(self, goal: str, budget: int = 0) -> list[DemoOutcome]:
        """Those of one training that are finished, model by model."""
        wanted = [each for each in self.outcomes if (each.trial.goal, each.trial.budget) == (goal, budget)]
        return sorted(wanted, key=lambda each: each.trial.model)

    def losses(self, goal: str, budget: int = 0) -> Floats:
        """The test loss on each model."""
        return np.array([each.loss for each in self.of(goal, budget)])

    def mean(self, goal: str, budget: int = 0) -> float:
        """The mean test loss over models; NaN where none is finished."""
        losses = self.losses(goal, budget)
        return float(losses.mean()) if len(losses) else float("nan")

    def wrong(self, goal: str, budget: int = 0) -> float:
        """The mean share of wrong outputs."""
        found = [each.wrong for each in self.of(goal, budget)]
        return float(np.mean(found)) if found else float("nan")

    def after(self, goal: str, budget: int, sweeps: int) -> float:
        """The mean loss of the same parameters after another number of sweeps; NaN where none is finished."""
        found = [each.after[sweeps] for each in self.of(goal, budget)]
        return float(np.mean(found)) if found else float("nan")

    def course(self, goal: str, budget: int) -> Floats:
        """The mean test loss after each epoch, ``[epochs]``."""
        return np.asarray(np.mean([each.course for each in self.of(goal, budget)], axis=0))

    def reliability(self, goal: str, budget: int) -> Reliability:
        """Of the test beliefs of all models together."""
        return merged([each.reliability for each in self.of(goal, budget)])

    def image_of(self, goal: str) -> Restored:
        return next(each for each in self.restored if each.goal == goal)


def merged(found: Sequence[Reliability]) -> Reliability:
    """The reliability of all events together."""
    count = np.sum([each.count for each in found], axis=0)
    with np.errstate(invalid="ignore"):
        said, was = (
            np.sum([np.nan_to_num(getattr(each, name)) * each.count for each in found], axis=0) / count
            for name in ("confidence", "frequency")
        )
    weights = [each.count.sum() for each in found]
    return Reliability(said, was, count, float(np.average([each.brier for each in found], weights=weights)))


@dataclass(frozen=True)
class DemoProgress:
    """What is told while it runs: ``done`` steps ``of`` all, and the findings so far."""

    done: int
    of: int
    what: str
    findings: Findings


Tell = Callable[[DemoProgress], None]


@dataclass
class _DemoRun:
    """One call of :func:`run_demo`."""

    amounts: DemoAmounts
    image: ImageAmounts
    seed: int
    tell: Tell
    outcomes: list[DemoOutcome] = field(default_factory=list)
    restored: list[Restored] = field(default_factory=list)
    done: int = 0

    def note(self, what: str, finished: int = 1) -> None:
        self.done += finished
        findings = Findings(self.amounts, self.image, self.seed, tuple(self.outcomes), tuple(self.restored))
        self.tell(DemoProgress(self.done, self._steps(), what, findings))

    def _steps(self) -> int:
        return self.amounts.models + len(trials(self.amounts)) + len((LIKELIHOOD, LOSS))

    def go(self, pool: Executor, workers: int) -> None:
        self.note("drawing random models (the first run compiles for some seconds)", finished=0)
        problems: dict[int, DemoModel] = {}
        calls: list[Callable[[], Any]] = [
            partial(_numbered, model, draw_problem, self.amounts, self.seed, model)
            for model in range(self.amounts.models)
        ]
        for model, problem in completed(calls, pool, workers):
            problems[model] = problem
            self.note("drawing random models")
        calls = [partial(run_trial, t, problems[t.model], self.amounts, self.seed) for t in trials(self.amounts)]
        calls += [partial(restore, goal, self.image, self.seed) for goal in (LIKELIHOOD, LOSS)]
        for found in completed(calls, pool, workers):
            if isinstance(found, Restored):
                self.restored.append(found)
                self.note("restoring images")
            else:
                self.outcomes.append(found)
                self.note(_described(found))


def run_demo(amounts: DemoAmounts, image: ImageAmounts, seed: int, tell: Tell, workers: int | None = None) -> Findings:
    """Runs everything; the same seed gives the same findings on any number of ``workers`` (None: one a core)."""
    began = time.perf_counter()
    count = min(available_threads(), MOST_WORKERS) if workers is None else workers
    run = _DemoRun(amounts, image, seed, tell)
    with worker_pool(count) as pool, one_thread():
        run.go(pool, count)
    seconds = time.perf_counter() - began
    return Findings(amounts, image, seed, tuple(run.outcomes), tuple(run.restored), seconds, count)


def _numbered(number: int, function: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    return number, function(*arguments)


def _described(outcome: DemoOutcome) -> str:
    trial = outcome.trial
    if trial.goal == TRUTH:
        return f"model {trial.model + 1}: the truth"
    return f"model {trial.model + 1}, {trial.budget} sweeps, trained for the {trial.goal}"
