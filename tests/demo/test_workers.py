"""Calls over processes: taken when there is a worker, ended with the program, the same results from any number."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest
import torch

from loopwise.demo.workers import completed, one_thread, worker_pool


def test_an_interruption_does_not_wait_for_other_processes() -> None:
    with pytest.raises(KeyboardInterrupt), worker_pool(2) as pool:
        future = pool.submit(time.sleep, 600)
        raise KeyboardInterrupt
    assert isinstance(future.exception(), BrokenProcessPool)  # it was ended, not waited for


def test_calls_are_taken_when_there_is_a_worker() -> None:
    taken: list[int] = []

    def calls():
        for number in range(3):
            taken.append(number)
            yield partial(int, number)

    with worker_pool(1) as pool:
        results = completed(calls(), pool, 1)
        assert next(results) == 0 and taken == [0]
        assert list(results) == [1, 2]


def test_results_come_from_any_number_of_workers() -> None:
    calls = [partial(pow, 2, number) for number in range(20)]
    with ThreadPoolExecutor(3) as pool, worker_pool(1) as here:
        assert sorted(completed(calls, pool, 3)) == list(completed(calls, here, 1))


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
