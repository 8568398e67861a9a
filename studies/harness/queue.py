"""Jobs one after another, over processes or the workers of a cluster, each saved as it ends, until time is up.

In: jobs that know where their results go. Out: files in a folder. A study that is stopped loses the jobs under way
only, and goes on from the files.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from loopwise.demo.workers import completed, worker_pool
from loopwise.notices import LoopwiseWarning
from studies.harness.cluster import ClusterPool, Lost
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
Workers = int | str  # processes of this machine, or the address of a cluster


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
    workers: Workers = 1,
) -> int:
    """Runs the jobs whose files are missing, in order, until time is up; how many are finished.

    ``run`` writes the file of its job, and may write those of others on the way. ``cost``: how long a job takes
    compared with others. ``workers``: processes, one core each, or the address of a Dask scheduler; ``run`` must then
    be a function of a module, or a partial one. A job that is lost with workers of a cluster is tried once more when
    no other runs beside it, which may have taken its worker away; if it is lost again, a warning names it, and it is
    left for another time.
    """
    todo = [job for job in jobs if not job.path(folder).exists()]
    pace = Pace(sum(map(cost, todo)), workers if isinstance(workers, int) else 1)

    def calls(some: Iterable[J]) -> Iterator[_Timed[J]]:
        for job in some:
            if deadline.passed:
                return
            if job.path(folder).exists():  # written by another on the way
                pace.left -= cost(job)
                continue
            tell(job.name, count_done(jobs, folder))
            yield _Timed(run, job)

    def work_off(some: Iterable[J], at_once: int) -> list[J]:
        """Those that were lost."""
        lost: list[J] = []
        for done in completed(calls(some), pool, at_once):
            if isinstance(done, Lost):
                lost.append(done.call.job)
                continue
            job, seconds = done
            _check_arrived(job, folder)
            pace.done(cost(job), seconds)
            tell(f"{job.name}: {seconds:.0f} s ({pace})", count_done(jobs, folder))
        return lost

    with ClusterPool(workers) if isinstance(workers, str) else worker_pool(workers) as pool:
        pace.workers = pool.workers if isinstance(pool, ClusterPool) else pace.workers
        lost = work_off(todo, pace.workers)
        work_off(lost, 1)
    missing = [job.name for job in lost if not job.path(folder).exists()]
    if missing:
        warnings.warn(
            f"lost with the workers that ran them, and left for another time: {', '.join(missing)}; the same command "
            "again tries only what is missing",
            LoopwiseWarning,
            stacklevel=2,
        )
    return count_done(jobs, folder)


def count_done(jobs: Sequence[Job], folder: Path) -> int:
    """How many jobs have their files."""
    return sum(job.path(folder).exists() for job in jobs)


def _check_arrived(job: Job, folder: Path) -> None:
    if not job.path(folder).exists():
        raise ValueError(
            f"{job.name} was done, but left no file in {folder}: workers of other machines must see that folder under "
            "the same path; give --out one that all share"
        )


@dataclass(frozen=True)
class _Timed(Generic[J]):
    """A job to be run: the job, and its seconds."""

    run: Callable[[J], object]
    job: J

    def __call__(self) -> tuple[J, float]:
        since = time.perf_counter()
        self.run(self.job)
        return self.job, time.perf_counter() - since
