"""Entries of kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from loopwise.compiled.entry import Entry


class Pair(NamedTuple):
    first: np.ndarray
    second: float


def weighted(pair: Pair, tag: tuple[int, ...]) -> float:
    return pair.first.sum() * pair.second + len(tag)


def test_it_is_the_kernel_for_these_types() -> None:
    kernel = njit(weighted)
    entry = Entry(kernel)
    for size in range(1, 6):
        assert entry((Pair(np.ones(size), 0.5), (0,))) == kernel(Pair(np.ones(size), 0.5), (0,)) == size / 2 + 1
    assert len(kernel.signatures) == 1


def test_without_numba_it_is_the_function() -> None:
    entry = Entry(weighted)
    assert [entry((Pair(np.ones(2), 3.0), ())) for _ in range(3)] == [6.0, 6.0, 6.0]
