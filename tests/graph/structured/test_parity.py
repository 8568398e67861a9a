"""Parity factors: signs, digits, contradictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.notices import ImpossibleError


def test_a_sign_for_each_example() -> None:
    bits = torch.tensor([[0, 1], [1, 1]])
    incoming = torch.randn(2, 2, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = lw.Parity(4, odd=None).messages(incoming, lw.Parity.signs(bits, torch.float64))
    for place in np.ndindex(2, 2):
        alone = lw.Parity(4, odd=bool(bits[place])).messages(incoming[place])
        assert torch.equal(found[place], alone)
    with pytest.raises(ValueError, match="must be 0"):
        lw.Parity.signs([2])


def test_parity_of_many_keeps_its_digits() -> None:
    """The closed form, 2 artanh of a product of tanh, over 200 variables."""
    odds = torch.linspace(2.0, 6.0, 200, dtype=torch.float64)
    incoming = torch.stack([torch.zeros_like(odds), odds], -1).flatten()
    found = lw.Parity(200).messages(incoming).reshape(-1, 2)
    sign = -torch.tanh(odds / 2)
    expected = torch.stack([-2 * torch.atanh(torch.cat([sign[:i], sign[i + 1 :]]).prod()) for i in range(200)])
    assert (found[:, 1] - found[:, 0]).numpy() == pytest.approx(expected.numpy(), abs=1e-12)


def test_contradictions_are_named() -> None:
    both_on = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0], dtype=torch.float64)
    with pytest.raises(ImpossibleError, match="Parity over 2 variables"):
        lw.Parity(2, odd=True).messages(both_on)


def test_signs_that_are_none_are_named() -> None:
    with pytest.raises(ValueError, match=r"odd of Parity must be False \(an even sum\), True or None"):
        lw.Parity(3, odd=2)  # type: ignore[arg-type]
