"""Rounds of the residual schedule, against those of the reference engine."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.decorators import kernel
from loopwise.graph import grid
from loopwise.inference.messages.kernels.rounds import (
    EASY,
    NARROW,
    NO_ROUND,
    WIDE,
    any_above,
    largest_key,
    new_keys,
    next_floor,
    turned,
)
from loopwise.inference.messages.pending import Growing, PendingMessages


@kernel
def made(edges):
    return new_keys(edges)


@kernel
def largest(keys):
    return largest_key(keys)


@kernel
def floor(keys, sent, edges):
    return next_floor(keys, sent, edges)


@kernel
def at(turn, rounds, edges):
    return turned(turn, rounds, edges)


@kernel
def above(keys, first, least):
    return any_above(keys, first, least)


@pytest.mark.parametrize("rows", [1, 4])
def test_edges_are_served_as_by_the_reference_engine(rows: int) -> None:
    layout = grid(rows, 5).layout
    random = np.random.default_rng(rows)
    plain = PendingMessages(layout, Growing(0.0, 0.25, 0.0, 1e-16), [1.0] * layout.edges)
    keys = made(layout.edges)
    assert floor(keys, 0, layout.edges) == NO_ROUND and plain.next_edge() == -1

    def grow(times: int) -> None:
        for edge in random.integers(layout.edges, size=times):
            keys.values[edge] += float(random.choice([0.0, 1.0, 1e-9, 1e300, np.inf, *random.random(9) * 40]))
            plain.keys[edge] = float(keys.values[edge])

    found, idle, rounds = 0, 0, 0
    while found < 1000:
        least = floor(keys, found, layout.edges)
        if least == NO_ROUND:
            assert plain.next_edge() == -1
            idle += 1
            grow(5)
            continue
        for turn in range(layout.edges):
            edge = at(turn, rounds, layout.edges)
            if keys.values[edge] > least:
                assert plain.next_edge() == edge
                keys.values[edge] = 0
                grow(int(random.integers(3)))  # of edges that are to come in this round, too
                found += 1
        rounds += 1
        assert keys.values[: layout.edges].tolist() == plain.keys
    assert idle > 10 and rounds > 100


def test_floor() -> None:
    keys = made(4)
    keys.values[:4] = [0.3, 1.0, 0.0, 0.9]
    assert floor(keys, 0, 4) == NO_ROUND and largest(keys) == 1
    keys.values[2] = 4.0
    assert floor(keys, 0, 4) == 1 and largest(keys) == 4
    keys.values[0] = 40.0
    assert floor(keys, 4 * EASY - 1, 4) == 40 * WIDE and floor(keys, 4 * EASY, 4) == 40 * NARROW
    keys.values[1] = np.inf
    assert 0 < floor(keys, 0, 4) < np.inf and largest(keys) == np.inf
    assert (keys.values[4:] == 0).all()


def test_groups_without_a_large_key_are_skipped() -> None:
    keys = made(19)
    keys.values[[3, 17]] = 2.0, 5.0
    assert [above(keys, first, 1.5) for first in (0, 8, 16)] == [True, False, True]
    assert [above(keys, first, 2.0) for first in (0, 8, 16)] == [False, False, True]
