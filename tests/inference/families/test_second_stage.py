"""What is decoded after message passing gave up."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loopwise.inference.families.kernels.osd import COMBINATIONS, EXHAUSTIVE, solve_shots
from loopwise.inference.families.parity import ParityChecks
from loopwise.inference.families.second_stage import columns_of


def solved(dense: np.ndarray, order: np.ndarray, syndrome: np.ndarray, fixed: dict[int, int]) -> np.ndarray:
    """The solution in which the first independent columns are free and others as ``fixed``, or 0; by rank, slowly."""
    basis: list[int] = []
    for column in order:
        trial = dense[:, [*basis, column]]
        if rank(trial) > len(basis):
            basis.append(column)
    left = (syndrome + sum(dense[:, k] * v for k, v in fixed.items())) % 2
    for number in range(2 ** len(basis)):
        bits = np.array([(number >> k) & 1 for k in range(len(basis))])
        if ((dense[:, basis] @ bits) % 2 == left).all():
            found = np.zeros(dense.shape[1], np.uint8)
            found[basis] = bits
            for k, v in fixed.items():
                found[k] = v
            return found
    raise AssertionError("no solution")


def rank(matrix: np.ndarray) -> int:
    rows, found = matrix.copy() % 2, 0
    for column in range(rows.shape[1]):
        pivot = next((r for r in range(found, len(rows)) if rows[r, column]), None)
        if pivot is None:
            continue
        rows[[found, pivot]] = rows[[pivot, found]]
        for r in range(len(rows)):
            if r != found and rows[r, column]:
                rows[r] ^= rows[found]
        found += 1
    return found


@pytest.mark.parametrize(("way", "depth"), [(COMBINATIONS, 0), (COMBINATIONS, 3), (EXHAUSTIVE, 3)])
def test_the_cheapest_of_those_tried(way: int, depth: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(12):
        dense = (rng.random((5, 11)) < 0.4).astype(np.int64)
        dense[4] = (dense[0] + dense[1]) % 2  # dependent rows
        dense[dense.sum(1) == 0, 0] = 1
        start = np.concatenate([[0], np.cumsum(dense.sum(1))])
        checks = ParityChecks(11, start, np.nonzero(dense)[1])
        error, costs = (rng.random(11) < 0.3).astype(np.int64), rng.uniform(0.5, 3, 11)
        syndrome, order = dense @ error % 2, rng.permutation(11)
        hard, fine = np.zeros((1, 11), np.uint8), np.zeros(1, np.bool_)
        bits = syndrome.astype(np.uint8)[None]
        solve_shots(columns_of(checks), order[None], bits, costs, way, depth, hard, fine)
        assert fine[0] and (dense @ hard[0] % 2 == syndrome).all()
        basis: list[int] = []
        for column in order:
            if rank(dense[:, [*basis, column]]) > len(basis):
                basis.append(column)
        others = [column for column in order if column not in basis]
        sets: list[tuple[int, ...]] = [()]
        if depth and way == COMBINATIONS:
            sets += [(k,) for k in others] + list(combinations(others[:depth], 2))
        elif depth:
            sets += [one for size in range(1, depth + 1) for one in combinations(others[:depth], size)]
        tried = [solved(dense, order, syndrome, dict.fromkeys(one, 1)) for one in sets]
        assert costs[hard[0] == 1].sum() == pytest.approx(min(costs[one == 1].sum() for one in tried))
