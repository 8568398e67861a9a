"""Rows of a hashed table: found once, in any number of ranges, and summed into as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.learn.kernels.hashed import (
    DuePenalty,
    find_rows,
    join_positions,
    scatter_parts,
    split_rows,
    sum_parts,
)

SIZE = 40


def made() -> tuple[np.ndarray, np.ndarray]:
    index = np.random.default_rng(7).integers(0, SIZE, 30).astype(np.int32)
    return index, np.array([0, 4, 4, 17, 30])


@pytest.mark.parametrize("ranges", [1, 3])
def test_ranges_keep_the_order_and_come_together_again(ranges: int) -> None:
    index, start = made()
    rows, first, starts = split_rows(index, start, SIZE, ranges)
    for number in range(ranges):
        mine = (index * ranges) // SIZE == number
        assert rows[first[number] : first[number + 1]].tolist() == index[mine].tolist()
        assert starts[number].tolist() == [int(mine[:end].sum()) for end in start]
    assert rows[join_positions(index, SIZE, np.arange(30, dtype=np.int32), first)].tolist() == index.tolist()


def test_rows_are_found_once_and_scores_are_sums_of_their_weights() -> None:
    index, start = made()
    weights = np.random.default_rng(8).normal(size=(SIZE, 1))
    table = (weights.copy(), np.zeros((SIZE, 1)), np.zeros(SIZE, np.int64), np.zeros(SIZE, np.int32))
    found, position, out = np.zeros(30, np.int64), np.zeros(30, np.int32), np.zeros(35)
    count = find_rows(index, 5, table, DuePenalty(0, 0.1, 0.1, 0.0), found, 0, position, out)
    assert sorted(found[:count].tolist()) == sorted(set(index.tolist()))
    assert found[position - 5].tolist() == index.tolist()
    assert out[5 : 5 + count] == pytest.approx(weights[found[:count], 0])
    totals = [weights[index[start[part] : start[part + 1]], 0].sum() for part in range(4)]
    assert sum_parts(start, position, out) == pytest.approx(np.array(totals))
    adjoint, sums = np.array([1.0, 5.0, 0.0, -2.0]), np.zeros((count, 1))
    scatter_parts(adjoint, start, position, 5, sums)
    whole = np.zeros(SIZE)
    np.add.at(whole, index, np.repeat(adjoint, np.diff(start)))
    assert sums[:, 0] == pytest.approx(whole[found[:count]])
