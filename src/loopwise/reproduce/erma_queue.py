"""Jobs over several processes, each saved as it ends, until all are done or time is up.

In: jobs. Out: finished runs in a folder. A process that is stopped loses only the jobs under way.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from loopwise.reproduce.erma_models import Size, load_model
from loopwise.reproduce.erma_runs import Job, Protocol, run_job
from loopwise.reproduce.queue import one_core_each
from loopwise.reproduce.results import Deadline

Tell = Callable[[str, int], None]  # what was done, and how many jobs are


class Pace:
    """How long what is left will take, from what was done."""

    def __init__(self, protocol: Protocol, left: Iterable[Job], workers: int) -> None:
        self.protocol, self.workers = protocol, workers
        self.left = sum(job.cost(protocol) for job in left)
        self.cost = self.seconds = 0.0

    def done(self, job: Job, seconds: float) -> None:
        """Counts a finished job."""
        cost = job.cost(self.protocol)
        self.left, self.cost, self.seconds = self.left - cost, self.cost + cost, self.seconds + seconds

    def __str__(self) -> str:
        if not self.cost:
            return "time left unknown"
        minutes = self.left * self.seconds / self.cost / self.workers / 60
        return f"about {minutes:.0f} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


def work_off(
    jobs: list[Job], protocol: Protocol, folder: Path, seed: int, deadline: Deadline, tell: Tell, workers: int = 1
) -> int:
    """Runs the jobs that have no run yet, in order; how many are left when time is up."""
    todo = [job for job in jobs if not job.path(folder).exists()]
    if not todo or deadline.passed:
        return len(todo)
    before = len(jobs) - len(todo)
    tell("drawing data", before)
    _draw_data(todo, protocol, folder, seed, deadline)
    tell("training (the first run compiles for some seconds)", before)
    pace, finished = Pace(protocol, todo, workers), 0
    for job, seconds in _results(todo, protocol, folder, seed, deadline, workers):
        finished += 1
        pace.done(job, seconds)
        tell(f"{job.size.name} {job.train}, {job.condition.name}: {seconds:.0f} s ({pace})", before + finished)
    return len(todo) - finished


def _draw_data(jobs: list[Job], protocol: Protocol, folder: Path, seed: int, deadline: Deadline) -> None:
    """Samples once for each model, before processes would do so at the same time."""
    sizes: list[Size] = list(dict.fromkeys(job.size for job in jobs))
    for size in sizes:
        if deadline.passed:
            return
        load_model(folder, size, seed, protocol.sampling)


def _results(
    jobs: list[Job], protocol: Protocol, folder: Path, seed: int, deadline: Deadline, workers: int
) -> Iterator[tuple[Job, float]]:
    if workers == 1:
        for job in jobs:
            if deadline.passed:
                return
            yield job, run_job(job, protocol, folder, seed)
        return
    # Fresh processes: a fork would copy the thread pools of this one.
    context = multiprocessing.get_context("spawn")
    with one_core_each(), ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting, running = list(reversed(jobs)), dict[Future[float], Job]()
        try:
            while running or (waiting and not deadline.passed):
                while waiting and len(running) < workers and not deadline.passed:
                    job = waiting.pop()
                    running[pool.submit(run_job, job, protocol, folder, seed)] = job
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
