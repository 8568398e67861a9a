"""Random streams of walks."""

from __future__ import annotations

import numpy as np

from loopwise.inference.gibbs.kernels.gibbs import next_uniform, seed_stream
from loopwise.walk.randomness import Stream


def test_random_streams() -> None:
    words = np.zeros(4, dtype=np.uint64)
    for seed, number in ((0, 0), (7, 3), (2**40 + 1, (5 << 32) | 9)):
        seed_stream(words, seed, number)
        stream = Stream(seed, number)
        assert [stream.uniform() for _ in range(20)] == [next_uniform(words) for _ in range(20)]
