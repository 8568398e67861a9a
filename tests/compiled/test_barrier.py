"""Threads of a kernel meet: nobody goes on before all have arrived."""

from __future__ import annotations

import numpy as np

from loopwise.compiled.barrier import meet
from loopwise.compiled.decorators import kernel
from loopwise.compiled.threads import in_threads


@kernel
def relay(values, barrier, part, parties, rounds):
    """Each round, every part adds one to its own number, and then checks that all others have."""
    behind = 0
    for round_ in range(1, rounds + 1):
        values[part] = round_
        meet(barrier, parties)
        for other in range(parties):
            behind += values[other] < round_
        meet(barrier, parties)
    return behind


def test_nobody_is_left_behind() -> None:
    for parties in (1, 3):
        values, barrier = np.zeros(parties, np.int64), np.zeros(2, np.int64)

        def part(number: int, values: np.ndarray = values, barrier: np.ndarray = barrier) -> int:
            return int(relay(values, barrier, number, len(values), 50))

        assert in_threads(parties, part) == [0] * parties
        assert values.tolist() == [50] * parties
