"""Starts of pieces against a plain sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwise.graph.offsets import starts_of


@pytest.mark.parametrize("sizes", [[], [0], [3, 0, 2], (1, 4), np.array([2, 2], np.int32), np.array([True, False])])
def test_starts_are_sums_of_the_sizes_before(sizes: Any) -> None:
    found = starts_of(sizes)
    assert found.dtype == np.int64
    assert found.tolist() == [sum(int(size) for size in sizes[:place]) for place in range(len(sizes) + 1)]
