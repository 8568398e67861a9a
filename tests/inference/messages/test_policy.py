"""Policies with standardised features."""

from __future__ import annotations

import torch

from loopwise import budget
from loopwise.inference.messages.features import STANDARD


def test_standardised_features() -> None:
    policy = budget.Policy()
    values = torch.randn(100, len(STANDARD), dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3 + 2
    values[:, 0] = 1.0
    policy.standardise(values)
    scaled = (values - policy.centre) / policy.scale
    assert torch.equal(scaled[:, 0], torch.ones(100, dtype=torch.float64))
    torch.testing.assert_close(scaled[:, 1:].mean(0), torch.zeros(8, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(scaled[:, 1:].std(0, correction=0), torch.ones(8, dtype=torch.float64))
