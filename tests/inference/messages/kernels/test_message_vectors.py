"""Messages as vectors, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.message_vectors import (
    PairTables,
    growth,
    message_at,
    rows_of,
    send_pair,
    with_transposed,
)
from loopwise.inference.messages.kernels.views import Message


@kernel
def sent(tables, start, side, n, m, target, literal, semiring):
    return send_pair(rows_of(tables, start, U(side)), Message(n, U(0)), Message(m, target), literal, semiring)


@kernel
def grown(new, old, literal):
    return growth(message_at(new, U(0), literal), message_at(old, U(0), literal), 1e-300, 1e-15)


@pytest.mark.parametrize("size", range(2, 6))
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_messages_of_a_pair(size: int, side: int, dtype: type) -> None:
    random = np.random.default_rng(size)
    theta, n = random.random((3, size, size)).astype(dtype), random.random(size).astype(dtype)
    tables, precision = with_transposed(theta.reshape(-1), size), 1e-12 if dtype is np.float64 else 1e-5
    table = theta[1] if side == 0 else theta[1].T
    for semiring, expected in (((), table @ n), ((0,), (table * n).max(1))):
        m = np.full(3 * size, 7, dtype=dtype)
        mass = sent(PairTables(tables, U(theta.size)), U(size * size), side, n, m, U(size), (0,) * size, semiring)
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
