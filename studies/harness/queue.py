"""Jobs one after another, or over several processes, each saved as it ends, until all are done or time is up.

In: jobs that know where their results go. Out: files in a folder. A study that is stopped loses the jobs under way
only, and goes on from the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from loopwise.demo.workers import completed, worker_pool
from studies.harness.results import Deadline

Tell = Callable[[str, int], None]  # what goes on, and how many jobs are done


def saying(tell: Tell, done: int) -> Callable[[str], None]:
    """Tells what goes on while ``done`` jobs are done."""
    return lambda what: tell(what, done)


class Job(Protocol):
    """Something that is run once."""

    @property
    def name(self) -> str:
        """As people read it."""

    def path(self, folder: Path) -> Path:
        """The file that is there once it is done."""


J = TypeVar("J", bound=Job)


class Pace:
    """How long what is left will take, from what was done."""

    def __init__(self, left: float, workers: int = 1) -> None:
        self.left, self.workers, self.cost, self.seconds = left, workers, 0.0, 0.0

    def done(self, cost: float, seconds: float) -> None:
        """Counts a finished job."""
        self.left, self.cost, self.seconds = self.left - cost, self.cost + cost, self.seconds + seconds

    def __str__(self) -> str:
        if not self.cost:
            return "time left unknown"
        minutes = self.left * self.seconds / self.cost / self.workers / 60
        return f"about {minutes:.0f} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


def run_jobs(
    jobs: Sequence[J],
    folder: Path,
    run: Callable[[J], object],
    deadline: Deadline,
    tell: Tell,
    *,
    cost: Callable[[J], float] = lambda job: 1.0,
    workers: int = 1,
) -> int:
    """Runs the jobs whose files are missing, in order, until time is up; how many are finished.

    ``run`` writes the file of its job, and may write those of others on the way. ``cost``: how long a job takes
    compared with others. ``workers``: processes, one core each; ``run`` must then be a function of a module, or a
    partial one.
    """
    todo = [job for job in jobs if not job.path(folder).exists()]
    pace = Pace(sum(map(cost, todo)), workers)

    def calls() -> Iterator[Callable[[], tuple[J, float]]]:
        for job in todo:
            if deadline.passed:
                return
            if job.path(folder).exists():  # written by another on the way
                pace.left -= cost(job)
                continue
            tell(job.name, count_done(jobs, folder))
            yield partial(_timed, run, job)

    with worker_pool(workers) as pool:
        for job, seconds in completed(calls(), pool, workers):
            pace.done(cost(job), seconds)
            tell(f"{job.name}: {seconds:.0f} s ({pace})", count_done(jobs, folder))
    return count_done(jobs, folder)


def count_done(jobs: Sequence[Job], folder: Path) -> int:
    """How many jobs have their files."""
    return sum(job.path(folder).exists() for job in jobs)


def _timed(run: Callable[[J], object], job: J) -> tuple[J, float]:
    since = time.perf_counter()
    run(job)
    return job, time.perf_counter() - since
