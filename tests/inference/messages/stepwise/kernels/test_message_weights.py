"""Weighted messages and memory, with values ruled out on either side, and their adjoints, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.inference.messages.stepwise.kernels.message_weights import (
    Mixing,
    remember,
    remember_back,
    weigh,
    weigh_back,
)
from loopwise.inference.messages.stepwise.steps import Program

ROWS = np.arange(2)


def logs(seed: int, ruled_out: tuple[int, int]) -> np.ndarray:
    """Of two examples with two messages of three values each, ``[2, 6]``, normalised; one value ruled out."""
    values = np.random.default_rng(seed).normal(size=(2, 6))
    values[ruled_out] = -np.inf
    found: np.ndarray = torch.from_numpy(values).reshape(2, 2, 3).log_softmax(-1).reshape(2, 6).numpy()
    return found


def mixed(share: torch.Tensor, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """(1 - share) one + share two where both are finite, else ``one``."""
    both = torch.isfinite(one) & torch.isfinite(two)
    safe = (1 - share) * torch.where(both, one, 0.0) + share * torch.where(both, two, 0.0)
    return torch.where(both, safe, one)


def test_weights_and_damping() -> None:
    edges, ranges = Program.of(lw.chain(2, 3).layout, lw.inference.Flooding()).edges, np.array([[0, 2]])
    old, new = logs(0, (0, 1)), logs(1, (1, 4))
    powers, shares = np.array([0.7, -0.4]), np.array([0.25, -0.5])
    given = [torch.from_numpy(each).requires_grad_() for each in (powers, shares, old, new)]
    weighted = torch.where(torch.isfinite(given[3]), given[3], 0.0) * given[0].repeat_interleave(3)
    weighted = torch.where(torch.isfinite(given[3]), weighted, -torch.inf)
    whole = mixed(given[1].repeat_interleave(3), weighted, given[2]).reshape(2, 2, 3).log_softmax(-1).reshape(2, 6)
    found = new.copy()
    weigh(ROWS, edges, ranges, Mixing(powers, shares), old, found)
    assert found == pytest.approx(whole.detach().numpy())
    seeds = np.random.default_rng(2).normal(size=(2, 6))
    seen = torch.where(torch.isfinite(whole), whole, 0.0) * torch.from_numpy(seeds)
    wanted = torch.autograd.grad(seen.sum(), given)
    of_m, of_new, of_powers, of_shares = seeds.copy(), np.empty((2, 6)), np.zeros(2), np.zeros(2)
    weigh_back(ROWS, edges, ranges, Mixing(powers, shares), old, new, of_m, of_new, Mixing(of_powers, of_shares))
    for own, expected in zip((of_powers, of_shares, of_m, of_new), wanted, strict=True):
        assert own == pytest.approx(expected.numpy(), abs=1e-12)


@pytest.mark.parametrize("rows", [1, 2])
def test_memory(rows: int) -> None:
    start, shares = np.array([0, 3, 6]), np.array([0.3, -0.6])
    own, seen = logs(0, (0, 1))[:rows], logs(1, (1, 4))
    given = [torch.from_numpy(each).requires_grad_() for each in (shares, own, seen)]
    possible = torch.isfinite(given[2])
    known = torch.where(possible, given[2], 0.0).reshape(2, 2, 3)
    mean = known.sum(-1, keepdim=True) / possible.reshape(2, 2, 3).sum(-1, keepdim=True)
    before = torch.where(possible, (known - mean).reshape(2, 6), 0.0)  # the mean, for a value that beliefs rule out
    potentials, share = given[1].expand(2, 6), given[0].repeat_interleave(3)
    finite = torch.isfinite(potentials)
    whole = (1 - share) * torch.where(finite, potentials, 0.0) + share * before
    whole = torch.where(finite, whole, -torch.inf)
    bias = np.empty((2, 6))
    remember(ROWS, start, shares, own, seen, bias)
    assert bias == pytest.approx(whole.detach().numpy())
    seeds = np.random.default_rng(2).normal(size=(2, 6))
    wanted = torch.autograd.grad(
        (torch.where(torch.isfinite(whole), whole, 0.0) * torch.from_numpy(seeds)).sum(), given
    )
    seeds[~np.isfinite(bias)] = 0.0
    of_shares, of_own, of_seen = np.zeros(2), np.zeros(own.shape), np.zeros((2, 6))
    remember_back(ROWS, start, shares, own, seen, seeds, of_shares, of_own, of_seen)
    for mine, expected in zip((of_shares, of_own, of_seen), wanted, strict=True):
        assert mine == pytest.approx(expected.numpy(), abs=1e-12)
    assert not seeds.any()
