"""Jobs one after another, or over several processes, each saved as it ends, until all are done or time is up.

In: jobs that know where their results go. Out: files in a folder. A study that is stopped loses the jobs under way
only, and goes on from the files.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from loopwise.reproduce.results import Deadline

THREAD_COUNTS = ("LOOPWISE_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Tell = Callable[[str, int], None]  # what goes on, and how many jobs are done


class Job(Protocol):
    """Something that is run once."""

    @property
    def name(self) -> str:
        """As people read it."""

    def path(self, folder: Path) -> Path:
        """The file that is there once it is done."""


J = TypeVar("J", bound=Job)
T = TypeVar("T")


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


def work_off(
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


def completed(calls: Iterable[Callable[[], T]], pool: Executor, workers: int) -> Iterator[T]:
    """The results of all calls, each as soon as it is there. A call is taken when there is a worker for it."""
    running: set[Future[T]] = set()
    for call in calls:
        running.add(pool.submit(call))
        if len(running) >= workers:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    yield from (future.result() for future in as_completed(running))


@contextmanager
def worker_pool(workers: int) -> Iterator[Executor]:
    """Processes of one core each; where one worker is enough, this process itself, which keeps its threads."""
    if workers == 1:
        yield _Here()
        return
    # Spawned, not forked: a fork of a process in which torch or Numba has threads may hang.
    with one_core_each():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin_worker)
        try:
            yield pool
        except BaseException:
            for process in active_children():  # what they write, they write whole or not at all
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


class _Here(Executor):
    """Runs what is submitted at once."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*arguments, **named))
        return future


def _begin_worker() -> None:
    """Ctrl-C is for the process that waits for the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
