"""Counts with numbers of their own."""

from __future__ import annotations

import torch

import loopwise as lw
from loopwise.testing import check_factor
from oracles.automaton_cases import on


def test_numbers_of_their_own() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(6, generator=generator, dtype=torch.float64)
    weights[2] = -torch.inf
    check_factor(lw.Count(5, weighted=True), potentials=weights, table=weights[on(5)])
    soft = torch.tensor([0.3, -1.2], dtype=torch.float64)  # a check that was measured with noise
    check_factor(lw.Parity(4, odd=None), potentials=soft, table=soft[on(4) % 2])


def test_numbers_and_messages_are_differentiable_to_any_order() -> None:
    incoming = torch.randn(8, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    weights = torch.randn(5, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lw.Count(4, weighted=True).messages, (incoming, weights))
    assert torch.autograd.gradgradcheck(lw.Parity(4).log_partition, incoming)
