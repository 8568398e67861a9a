"""Messages between binary variables as log-odds, against the same in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.inference.messages.stepwise.kernels.binary_pairs import Pairs, pair_messages, pairs_back, pairs_send
from loopwise.inference.messages.stepwise.kernels.sweeps import Weights, table_weights

LEAST = 1e-140
FACTORS, VARIABLES = 300, 9  # more than two blocks


def given(scale: float, batch: int) -> tuple[Pairs, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(int(scale))
    ends = np.array([rng.permutation(VARIABLES)[:2] for _ in range(FACTORS)])
    pairs = Pairs(2 * ends[:, 0].copy(), 2 * ends[:, 1].copy(), LEAST)
    theta = scale * rng.normal(size=(batch, FACTORS, 4))
    return pairs, theta, scale * rng.normal(size=(2, 2 * VARIABLES)), scale * rng.normal(size=(2, 2, FACTORS))


def weights_of(theta: np.ndarray) -> Weights:
    weights = Weights(theta, np.empty(theta.shape), np.empty(theta.shape[:2], dtype=np.bool_))
    table_weights(theta, LEAST, weights.weight, weights.tame)
    return weights


def in_torch(pairs: Pairs, theta: torch.Tensor, sums: torch.Tensor, odds: torch.Tensor) -> torch.Tensor:
    """New log-odds ``[examples, 2, factors]``."""
    heard = [
        sums[:, first + 1] - sums[:, first] - odds[:, side] for side, first in enumerate((pairs.first, pairs.second))
    ]
    off_off, off_on, on_off, on_on = theta.unbind(-1)
    to_first = torch.logaddexp(on_off, on_on + heard[1]) - torch.logaddexp(off_off, off_on + heard[1])
    to_second = torch.logaddexp(off_on, on_on + heard[0]) - torch.logaddexp(off_off, on_off + heard[0])
    return torch.stack([to_first, to_second], 1)


@pytest.mark.parametrize("scale", [1.0, 30.0, 900.0])
@pytest.mark.parametrize("batch", [1, 2])
def test_messages_and_their_adjoint(scale: float, batch: int) -> None:
    pairs, theta, sums, odds = given(scale, batch)
    sources = [torch.from_numpy(each).requires_grad_() for each in (theta, sums, odds)]
    expected = in_torch(pairs, *sources)
    rows, weights, mine = np.arange(2), weights_of(theta), odds.copy()
    heard, part, count = np.empty(odds.shape), np.empty(sums.shape), np.empty(sums.shape, dtype=np.int64)
    pairs_send(rows, pairs, weights, sums, np.zeros(sums.shape, dtype=np.int64), mine, heard, part, count)
    assert mine == pytest.approx(expected.detach().numpy(), rel=1e-12, abs=1e-11)
    assert count.sum() == 0 and part[:, ::2].sum() == 0
    assert part.sum() == pytest.approx(mine.sum())

    rng = np.random.default_rng(1)
    of_sums, carried = rng.normal(size=sums.shape), rng.normal(size=odds.shape)
    total = torch.from_numpy(carried.copy())
    for side, first in enumerate((pairs.first, pairs.second)):
        total[:, side] += torch.from_numpy(of_sums)[:, first + 1]
    wanted = torch.autograd.grad((expected * total).sum(), sources)
    of_heard, of_theta = np.zeros(sums.shape), np.zeros(theta.shape)
    pairs_back(rows, pairs, weights, heard, of_sums, carried, of_heard, of_theta)
    for found, adjoint in zip((of_theta, of_heard, carried), wanted, strict=True):
        assert found == pytest.approx(adjoint.numpy(), rel=1e-10, abs=1e-10)


def test_values_that_are_ruled_out() -> None:
    """A table that forbids (ON, ON), beside a variable that must be ON; and one that leaves nothing."""
    pairs = Pairs(np.array([0, 0]), np.array([2, 4]), LEAST)
    theta = np.zeros((1, 2, 4))
    theta[0, 0, 3] = -np.inf
    theta[0, 1, 2:] = -np.inf
    sums, counts = np.zeros((1, 6)), np.zeros((1, 6), dtype=np.int64)
    counts[0, 0] = 1  # some other factor rules OFF out
    odds, heard = np.zeros((1, 2, 2)), np.empty((1, 2, 2))
    part, count = np.empty((1, 6)), np.empty((1, 6), dtype=np.int64)
    pairs_send(np.arange(1), pairs, weights_of(theta), sums, counts, odds, heard, part, count)
    assert odds[0, 1, 0] == -np.inf  # the second variable of the first factor must be OFF
    assert np.isnan(odds[0, 1, 1])  # the second factor has no value left for its second variable
    assert count[0].tolist() == [0, 1, 0, 1, 1, 1]
    m = np.empty((1, 8))
    pair_messages(np.arange(1), odds, 0, m)
    assert m[0, 2:4].tolist() == [0.0, -np.inf] and (m[0, 6:] == -np.inf).all()
