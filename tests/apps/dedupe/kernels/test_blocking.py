"""Pairs within blocks against plain Python; MinHash against Jaccard similarity."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loopwise.apps.dedupe.kernels.blocking import count_pairs, list_pairs, min_hashes

BLOCKS = [[0], [3, 1], [2, 4, 5], [], [1, 6, 2, 7, 0]]
STARTS = np.cumsum([0, *map(len, BLOCKS)])
MEMBERS = np.array([member for block in BLOCKS for member in block])


def wanted(most: int, window: int, side: list[int]) -> list[int]:
    found = []
    for block in BLOCKS:
        reach = len(block) if len(block) <= most else window
        for (place, one), (there, other) in combinations(enumerate(block), 2):
            if there - place <= reach and (side[one] < 0 or side[one] != side[other]):
                found.append(min(one, other) * 8 + max(one, other))
    return sorted(found)


@pytest.mark.parametrize("side", [[-1] * 8, [0, 1, 0, 1, 1, 0, 0, 1]], ids=["one table", "two"])
@pytest.mark.parametrize(("most", "window"), [(10, 1), (3, 2), (2, 1), (1, 0)])
def test_pairs_of_blocks(most: int, window: int, side: list[int]) -> None:
    room = np.full(count_pairs(STARTS, most, window), -1)
    count = list_pairs(STARTS, MEMBERS, most, window, np.array(side), room)
    assert sorted(room[:count].tolist()) == wanted(most, window, side)
    if side[0] < 0:
        assert count == len(room)


def test_a_member_is_not_paired_with_itself() -> None:
    room = np.zeros(count_pairs(np.array([0, 2]), 5, 5), dtype=np.int64)
    assert list_pairs(np.array([0, 2]), np.array([4, 4]), 5, 5, np.full(8, -1), room) == 0


def test_pairs_grow_linearly_in_large_blocks() -> None:
    assert count_pairs(np.array([0, 10_000]), 40, 3) == 3 * 10_000 - 6


def test_min_hashes_agree_as_often_as_sets_overlap() -> None:
    random = np.random.default_rng(0)
    shared, mine, theirs = np.split(random.integers(0, 2**63, 120).astype(np.uint64), [60, 90])
    keys = np.concatenate([shared, mine, shared, theirs])  # Jaccard similarity 60 / 120
    out = np.zeros((2, 2000), dtype=np.uint64)
    min_hashes(np.array([0, 90, 180]), keys, random.integers(0, 2**63, 2000).astype(np.uint64), out)
    assert abs((out[0] == out[1]).mean() - 0.5) < 0.05
    again = np.zeros((2, 2000), dtype=np.uint64)
    min_hashes(
        np.array([0, 90, 180]), np.concatenate([keys[:90][::-1], keys[90:]]), np.arange(2000, dtype=np.uint64), again
    )
    same = np.zeros((2, 2000), dtype=np.uint64)
    min_hashes(np.array([0, 90, 180]), keys, np.arange(2000, dtype=np.uint64), same)
    assert np.array_equal(again, same), "the order of members does not matter"
