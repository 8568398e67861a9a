"""Scores as a sparse linear map, in parts."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loopwise.apps.chain.features.text import equal_parts


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 4))
def test_parts_cover_everything_once(lengths: list[int], count: int) -> None:
    start = np.cumsum([0, *lengths])
    parts = equal_parts(start, count)
    assert len(parts) <= count and parts[0][0] == 0 and parts[-1][1] == len(lengths)
    assert all(one[1] == two[0] for one, two in itertools.pairwise(parts))
