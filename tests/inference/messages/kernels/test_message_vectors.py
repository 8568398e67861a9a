"""Messages as vectors, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.lane_vectors import store, total
from loopwise.graph import FactorGraph
from loopwise.inference.messages.kernels.message_vectors import (
    ROOM,
    growth,
    message_at,
    pair_message,
    repeated,
    tell_tables,
)
from loopwise.inference.messages.kernels.views import Message
from loopwise.inference.messages.storage import Arrangement, Storage


@kernel
def sent(tables, edge, n, m, target, literal, semiring):
    table = Message(tables, U(edge * len(literal) * len(literal)))
    message = pair_message(table, Message(n, U(0)), literal, semiring)
    mass = total(message)
    store(m, target, message * repeated(1 / mass, m, literal))
    return mass


@kernel
def told(plan, theta, block, edges, tables, literal):
    tell_tables(plan, theta, block, edges, tables, literal)


@kernel
def grown(new, old, literal):
    return growth(message_at(new, U(0), literal), message_at(old, U(0), literal), 1e-300, 1e-15)


@pytest.mark.parametrize("size", range(2, 6))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_messages_of_pairs(size: int, dtype: type) -> None:
    """Of two groups and two examples, which have tables of their own in one group; edges in any order."""
    random, literal = np.random.default_rng(size), (0,) * size
    layout = FactorGraph([size] * 4, {"one": [(0, 1), (2, 1)], "two": [(2, 3)]}).layout
    theta = random.random((2 + 2, size, size)).astype(dtype)  # the second group has one table an example
    storage, precision = Storage.of(layout, Arrangement.PLAIN), 1e-12 if dtype is np.float64 else 1e-5
    groups = storage.group_rows([(True, 2 * size * size), (False, 2 * size * size)], 2)
    plan = storage.plan(groups, np.ones(layout.edges), 0)
    edges = random.permutation(layout.edges)
    for example in range(2):
        tables = np.empty(layout.edges * size * size + ROOM, dtype=dtype)
        told(plan, theta.reshape(-1), U(example), edges, tables, literal)
        for number, at in enumerate(edges):
            factor, side = divmod(int(layout.variable_edges[at]), 2)
            table = theta[factor if factor < 2 else 2 + example]
            table, n = table if side == 0 else table.T, random.random(size).astype(dtype)
            for semiring, expected in (((), table @ n), ((0,), (table * n).max(1))):
                m = np.full(3 * size, 7, dtype=dtype)
                mass = sent(tables, number, n, m, U(size), literal, semiring)
                np.testing.assert_allclose(mass, expected.sum(), rtol=precision)
                np.testing.assert_allclose(m[size : 2 * size], expected / expected.sum(), rtol=precision)
                assert (m[:size] == 7).all() and (m[2 * size :] == 7).all()


@pytest.mark.parametrize("size", range(2, 6))
def test_growth(size: int) -> None:
    random = np.random.default_rng(size)
    new, old = random.random(size) + 0.1, random.random(size) + 0.1
    ratios = new / old
    assert grown(new, old, (0,) * size) == pytest.approx(ratios.max() / ratios.min() - 1, rel=1e-12)
    assert grown(3 * new, old, (0,) * size) == pytest.approx(ratios.max() / ratios.min() - 1, rel=1e-12)
    assert grown(new, new * (1 + 1e-16), (0,) * size) == 0
