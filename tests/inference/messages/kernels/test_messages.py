"""The messages of one factor, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.inference.messages.kernels.messages import pair_message, store_message, table_message, table_messages
from loopwise.inference.messages.kernels.plan import Scratch
from loopwise.inference.messages.kernels.views import Cells, Message, PairTable

SEMIRINGS = {0: np.sum, 1: np.max, 2: logsumexp, 3: np.max}


@kernel
def of_pair(data, rows, columns, transposed, n, fresh, semiring):
    row, column = (U(1), rows) if transposed else (columns, U(1))
    table = PairTable(data, U(0), rows, row, columns, column, U(1))
    pair_message(table, Message(n, U(0)), fresh, U(0), U(1), semiring)


@kernel
def of_table(table, n, scratch, semiring):
    table_messages(table, Message(n, U(0)), scratch.fresh, scratch.partial, U(1), semiring)


@kernel
def to_one(table, n, target, states, scratch, semiring):
    table_message(table, Message(n, U(0)), target, states, scratch, (), semiring)


@kernel
def stored(fresh, m, damping, lowest, semiring):
    store_message(fresh, U(0), m, U(0), U(fresh.shape[0]), damping, lowest, U(1), semiring)


def summed(cells: np.ndarray, axis: int, kind: int) -> np.ndarray:
    """All axes but one collected."""
    return SEMIRINGS[kind](cells, axis=tuple(a for a in range(cells.ndim) if a != axis))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", range(4))
def test_messages_of_a_pair(kind: int) -> None:
    random, semiring = np.random.default_rng(kind), (0,) * kind
    x, n = random.random((3, 4)), random.random(4)
    for transposed in (False, True):
        fresh, data = np.empty(3), (x.T if transposed else x).reshape(-1).copy()
        of_pair(data, U(3), U(4), transposed, n, fresh, semiring)
        np.testing.assert_allclose(fresh, summed(x * n if kind < 2 else x + n, 0, kind), rtol=1e-13)


@pytest.mark.parametrize("kind", range(4))
def test_messages_of_three_variables(kind: int) -> None:
    random, semiring, shape = np.random.default_rng(kind), (0,) * kind, (2, 3, 2)
    x, n = random.random(shape), [random.random(size) for size in shape]
    slots = np.stack(np.indices(shape), -1).reshape(-1, 3) + np.array([0, 2, 5])
    table = Cells(x.reshape(-1), U(0), U(1), U(1), slots.reshape(-1), U(0), U(12), U(3), U(7))
    scratch = Scratch(np.empty(7), np.empty(5), *np.empty((5, 1)))
    of_table(table, np.concatenate(n), scratch, semiring)
    all_messages = scratch.fresh.copy()
    for axis, begin in enumerate((0, 2, 5)):
        others = [n[a].reshape([-1 if b == a else 1 for b in range(3)]) for a in range(3) if a != axis]
        cells = x * others[0] * others[1] if kind < 2 else x + others[0] + others[1]
        expected = summed(cells, axis, kind)
        np.testing.assert_allclose(all_messages[begin : begin + shape[axis]], expected, rtol=1e-12)
        to_one(table, np.concatenate(n), U(axis), U(shape[axis]), scratch, semiring)
        np.testing.assert_allclose(scratch.fresh[: shape[axis]], expected, rtol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("kind", [0, 2])
def test_messages_are_normalised_and_damped(damping: float, kind: int) -> None:
    random = np.random.default_rng(4)
    fresh, old = random.random(3), random.dirichlet(np.ones(3))
    expected = (fresh / fresh.sum()) ** (1 - damping) * old**damping
    expected /= expected.sum()
    lowest, log = np.array([np.inf]), kind == 2
    given, m = (np.log(fresh), np.log(old)) if log else (fresh, old.copy())
    stored(given, m, damping, lowest, (0,) * kind)
    np.testing.assert_allclose(np.exp(m) if log else m, expected, rtol=1e-13)
    assert lowest[0] == pytest.approx(np.log(fresh.sum()) if log else fresh.sum())
