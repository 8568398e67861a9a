"""Straight-line pair kernels of every literal size, against einsum and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.compiled.arithmetic import PROBABILITY_MAX, PROBABILITY_SUM, U
from loopwise.compiled.decorators import kernel
from loopwise.inference.messages.kernels.pairs import send_both, send_one, undo_both
from loopwise.inference.messages.kernels.views import Message, table_at

LANES = 3  # any number will do here


@kernel
def send_lanes(theta, n, m, masses, literal, shared, semiring):
    for lane in range(U(LANES)):
        masses[lane] = send_both(
            table_at(theta, U(0), shared), Message(n, U(0)), Message(m, U(0)), lane, U(LANES), literal, semiring
        )


@kernel
def send_alone(theta, n, m, side, literal, semiring):
    return send_one(table_at(theta, U(0), None), Message(n, U(0)), Message(m, U(0)), U(side), literal, semiring)


@kernel
def undo_lanes(theta, n, back, spread, sums, literal):
    for lane in range(U(LANES)):
        undo_both(
            table_at(theta, U(0), None), Message(n, U(0)), Message(back, U(0)), Message(spread, U(0)),
            Message(sums, U(0)), lane, U(LANES), 1.0, literal,
        )  # fmt: skip


def factor(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A table ``[size, size, lane]`` with a forbidden cell, and messages to it ``[2, size, lane]``."""
    random = np.random.default_rng(size)
    theta, n = np.exp(random.normal(size=(size, size, LANES))), random.uniform(0.1, 1, (2, size, LANES))
    theta[0, 1, 0] = 0
    return theta, n


@pytest.mark.parametrize("semiring", [PROBABILITY_SUM, PROBABILITY_MAX], ids=["sum", "max"])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_both_messages_and_one_alone(size: int, semiring: tuple[int, ...]) -> None:
    theta, n = factor(size)
    m, masses = np.empty_like(n), np.empty(LANES)
    send_lanes(theta.reshape(-1), n.reshape(-1), m.reshape(-1), masses, (0,) * size, None, semiring)
    products = np.stack([(theta * n[1]), (theta * n[0][:, None]).transpose(1, 0, 2)])
    raw = products.sum(2) if semiring == PROBABILITY_SUM else products.max(2)
    np.testing.assert_allclose(m, raw / raw.sum(1, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(masses, raw.sum(1).min(0), rtol=1e-14)
    for side in (0, 1):
        alone, table, source = np.empty(size), theta[..., 2].copy(), n[1 - side, :, 2].copy()
        mass = send_alone(table.reshape(-1), source, alone, side, (0,) * size, semiring)
        np.testing.assert_allclose(alone, m[side, :, 2], rtol=1e-14)
        np.testing.assert_allclose(mass, raw[side, :, 2].sum(), rtol=1e-14)


def test_lanes_that_share_a_table() -> None:
    theta, n = factor(3)
    same = np.repeat(theta[..., :1], LANES, axis=2)
    one, other, masses = np.empty_like(n), np.empty_like(n), np.empty(LANES)
    send_lanes(same.reshape(-1), n.reshape(-1), one.reshape(-1), masses, (0,) * 3, None, ())
    shared = theta[..., 0].copy().reshape(-1)
    send_lanes(shared, n.reshape(-1), other.reshape(-1), masses, (0,) * 3, (0,), ())
    np.testing.assert_array_equal(one, other)


def test_nothing_sent_is_told_and_not_divided_by() -> None:
    theta, n = factor(2)
    n[0, :, 1] = 0
    m, masses = np.empty_like(n), np.empty(LANES)
    send_lanes(theta.reshape(-1), n.reshape(-1), m.reshape(-1), masses, (0,) * 2, None, ())
    assert masses[1] == 0
    assert np.isfinite(m).all()


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_undoing_is_the_gradient(size: int) -> None:
    theta, n = factor(size)
    theta[0, 1, 0] = 0.5  # logarithms are differentiated
    weights = np.random.default_rng(9).normal(size=n.shape)
    weights -= weights.mean(1, keepdims=True)  # adjoints of log messages sum to zero
    logs = [torch.from_numpy(np.log(each)).requires_grad_() for each in (theta, n)]
    first = torch.logsumexp(logs[0] + logs[1][1], 1)
    second = torch.logsumexp(logs[0] + logs[1][0][:, None], 0)
    value = (torch.from_numpy(weights) * torch.stack([first, second])).sum()
    expected = torch.autograd.grad(value, logs)
    spread, sums = np.empty_like(n), np.ones_like(theta)
    undo_lanes(theta.reshape(-1), n.reshape(-1), weights.reshape(-1), spread.reshape(-1), sums.reshape(-1), (0,) * size)
    np.testing.assert_allclose(sums - 1, expected[0].numpy(), atol=1e-13)
    np.testing.assert_allclose(spread, expected[1].numpy(), atol=1e-13)
