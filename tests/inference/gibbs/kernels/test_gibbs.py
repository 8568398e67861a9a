"""Random streams of the sampler."""

from __future__ import annotations

import numpy as np

import loopwise.inference.gibbs.kernels.gibbs as kernels


def test_random_streams_are_xoshiro_in_every_lane():
    def rotated(word, bits):
        return (word << bits | word >> (64 - bits)) % 2**64

    streams = np.empty((4, kernels.LANES), dtype=np.uint64)
    bits = np.empty(kernels.LANES, dtype=np.uint64)
    for lane in range(kernels.LANES):
        kernels.seed_stream(streams[:, lane], 11, lane)
    assert len(np.unique(streams)) == streams.size
    scalar = streams[:, 3].copy()
    words = [int(word) for word in scalar]
    for _ in range(100):
        expected = ((words[0] + words[3]) % 2**64 >> 12) / 2**52
        shifted = words[1] << 17
        words[2] ^= words[0]
        words[3] ^= words[1]
        words[1] ^= words[2]
        words[0] ^= words[3]
        words[2] = (words[2] ^ shifted) % 2**64
        words[3] = rotated(words[3], 45)
        assert kernels.next_uniform(scalar) == expected
        kernels._next_bits(streams, bits)
        assert bits.view(np.float64)[3] - 1.0 == expected
