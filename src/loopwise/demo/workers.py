"""Work spread over processes of one core each.

In: calls. Out: their results, each as soon as it is there. Where one worker is enough, this process does it all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

import torch

THREAD_COUNTS = ("LOOPWISE_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

T = TypeVar("T")


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread; afterwards on as many as before. (Sampling may set another number: do it before.)"""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
