"""The queue of the residual schedule, against a look at all keys."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from loopwise.kernels.queue import first_item, new_queue, set_key


@njit
def made(keys):
    return new_queue(keys)


@njit
def changed(queue, item, key):
    set_key(queue.keys, queue.bits, queue.starts, item, key)


@njit
def first(queue):
    return first_item(queue.bits, queue.starts)


@pytest.mark.parametrize("items", [1, 15, 16, 17, 300, 5000])
def test_first_is_the_lowest_of_the_largest(items: int) -> None:
    random = np.random.default_rng(items)
    keys = random.integers(0, 8, items) / 4  # many ties
    queue = made(keys)
    for _ in range(300):
        assert first(queue) == np.argmax(keys)
        item, key = int(random.integers(items)), float(random.choice([0.0, random.random(), np.inf, 3.0]))
        keys[item] = key
        changed(queue, item, key)
