"""Jobs one after another, each saved as it ends, until all are done or time is up.

In: jobs that know where their results go. Out: files in a folder. A study that is stopped loses the job under way only,
and goes on from the files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from loopwise.formats import atomic_write
from loopwise.reproduce.results import Deadline

PROTOCOL = "protocol.txt"
THREAD_COUNTS = ("LOOPWISE_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
KINDS = ("json", "npz", "checkpoint")  # of files that runs leave

Tell = Callable[[str, int], None]  # what goes on, and how many jobs are done


class Job(Protocol):
    """Something that is run once."""

    @property
    def name(self) -> str:
        """As people read it."""

    @property
    def cost(self) -> float:
        """How long it takes compared with others."""

    def path(self, folder: Path) -> Path:
        """The file that is there once it is done."""


J = TypeVar("J", bound=Job)


class Pace:
    """How long what is left will take, from what was done."""

    def __init__(self, left: float) -> None:
        self.left, self.cost, self.seconds = left, 0.0, 0.0

    def done(self, cost: float, seconds: float) -> None:
        """Counts a finished job."""
        self.left, self.cost, self.seconds = self.left - cost, self.cost + cost, self.seconds + seconds

    def __str__(self) -> str:
        if not self.cost:
            return "time left unknown"
        minutes = self.left * self.seconds / self.cost / 60
        return f"about {minutes:.0f} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


def work_off(jobs: Sequence[J], folder: Path, run: Callable[[J], None], deadline: Deadline, tell: Tell) -> int:
    """Runs the jobs whose files are missing, in order, until time is up; how many are finished.

    ``run`` writes the file of its job, and may write those of others on the way.
    """
    todo = [job for job in jobs if not job.path(folder).exists()]
    pace = Pace(sum(job.cost for job in todo))
    for job in todo:
        done = count_done(jobs, folder)
        if job.path(folder).exists():
            pace.left -= job.cost
            continue
        if deadline.passed:
            break
        tell(job.name, done)
        since = time.perf_counter()
        run(job)
        seconds = time.perf_counter() - since
        pace.done(job.cost, seconds)
        tell(f"{job.name}: {seconds:.0f} s ({pace})", count_done(jobs, folder))
    return count_done(jobs, folder)


def count_done(jobs: Sequence[Job], folder: Path) -> int:
    """How many jobs have their files."""
    return sum(job.path(folder).exists() for job in jobs)


def check_runs(folder: Path, description: str, keep: bool) -> None:
    """Runs of another description must not mix with these: they are deleted, or refused where they are to be kept."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PROTOCOL
    if path.exists() and path.read_text(encoding="utf-8") != description:
        if keep:
            raise ValueError(f"{folder} holds runs of another protocol or seed; choose another folder, or delete it")
        for old in (path for kind in KINDS for path in folder.glob(f"*.{kind}")):
            old.unlink()
    with atomic_write(path) as stream:
        stream.write(description)


@contextmanager
def one_core_each() -> Iterator[None]:
    """Processes begun meanwhile use one core each, in every library, and share the machine among them."""
    before = {name: os.environ.get(name) for name in THREAD_COUNTS}
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
