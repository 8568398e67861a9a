"""Random streams of walks: the generator of the compiled kernels, in Python.

In: a seed and the number of a stream. Out: uniform numbers, choices. Stage: walking. Number for number the same as
``seed_stream`` and ``next_uniform`` of ``gibbs`` (SplitMix64 seeds xoshiro256+), so that a plain
walk and a compiled one take the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_EPOCH_BITS = 32  # a stream is numbered (epoch, document): no epoch has more documents than this many bits hold


def stream_number(epoch: int, document: int) -> int:
    """The stream of a document's walk in an epoch: it depends on nothing else, so documents may go in any order."""
    return (epoch << _EPOCH_BITS) | document


def document_number(stream: int) -> int:
    """The document of a stream's number."""
    return stream & ((1 << _EPOCH_BITS) - 1)


class Stream:
    """Random numbers of one walk.

    Proposals draw by :meth:`below` and :meth:`choose` rather than :meth:`uniform`: their outcomes can then be
    enumerated, which is how :func:`loopwise.testing.check_walk` proves detailed balance.

    >>> stream = Stream(seed=0, number=3)
    >>> 0 <= stream.uniform() < 1, stream.below(5) in range(5), stream.choose([0.0, 2.0, 0.0])
    (True, True, 1)
    """

    def __init__(self, seed: int, number: int = 0) -> None:
        state = _mixed((_mixed((seed + _GOLDEN) & _MASK) + number * _GOLDEN) & _MASK)
        words = []
        for _ in range(4):
            state = (state + _GOLDEN) & _MASK
            words.append(_mixed(state))
        self._words = words

    def uniform(self) -> float:
        """A number in [0, 1)."""
        a, b, c, d = self._words
        word = (a + d) & _MASK
        shifted = (b << 17) & _MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        d = ((d << 45) | (d >> 19)) & _MASK
        self._words = [a, b, c, d]
        return (word >> 12) * 2.0**-52

    def words(self) -> NDArray[np.uint64]:
        """The state of the generator, as compiled functions take it."""
        return np.array(self._words, dtype=np.uint64)

    def set_words(self, words: NDArray[np.uint64]) -> None:
        """Goes on from where a compiled function left the generator."""
        self._words = [int(word) for word in words]

    def below(self, count: int) -> int:
        """One of 0 to ``count`` - 1, all alike."""
        return int(self.uniform() * count)

    def choose(self, weights: Sequence[float]) -> int:
        """A place with probability proportional to its weight; at least one must be positive."""
        total = 0.0
        for weight in weights:
            total += weight
        left = self.uniform() * total
        chosen = 0
        for place, weight in enumerate(weights):
            if weight > 0.0:
                chosen = place  # rounding may leave a rest: the last possible place takes it
                left -= weight
                if left < 0.0:
                    break
        return chosen


def _mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * _MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * _MIX_2) & _MASK
    return word ^ (word >> 31)
