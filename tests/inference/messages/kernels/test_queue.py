"""The queue of the residual schedule, against one made of lists."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from loopwise.graph import grid
from loopwise.inference.messages.kernels.queue import first_item, new_queue, set_key
from loopwise.inference.messages.pending import Growing, PendingMessages


@njit
def made(items):
    return new_queue(items)


@njit
def changed(queue, item, key):
    set_key(queue, item, key)


@njit
def first(queue):
    return first_item(queue)


@pytest.mark.parametrize("rows", [1, 4])
def test_serves_the_oldest_of_the_highest_bucket(rows: int) -> None:
    layout = grid(rows, 5).layout
    random = np.random.default_rng(rows)
    plain = PendingMessages(layout, Growing(0.0, 0.25, 0.0, 1e-16), [1.0] * layout.edges)
    queue = made(layout.edges)
    assert first(queue) == plain.first() == -1
    for _ in range(3000):
        item, key = (
            int(random.integers(layout.edges)),
            float(random.choice([0.0, 1.0, 1e-9, 1e300, *random.random(9) * 40])),
        )
        changed(queue, item, key)
        plain.set_key(item, key)
        assert first(queue) == plain.first()


def test_keys_within_a_bucket_count_as_equal() -> None:
    queue = made(4)
    for item, key in ((2, 4.1), (0, 5.9), (1, 6.1), (3, 0.9)):
        changed(queue, item, key)
    served = []
    while first(queue) >= 0:
        served.append(first(queue))
        changed(queue, served[-1], 0.0)
    assert served == [1, 2, 0]  # 4 to 6, in the order in which they came; at most 1 is not served
