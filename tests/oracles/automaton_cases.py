"""Factors over many variables, and their best assignments by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw


def assignments(variables: int) -> np.ndarray:
    """All of them, last variable fastest, bool ``[2^variables, variables]``."""
    return np.indices((2,) * variables).reshape(variables, -1).T == 1


def hard(allowed: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.where(allowed, 0.0, -np.inf))


def on(variables: int) -> np.ndarray:
    return assignments(variables).sum(1)


def check_max_messages(
    factor: lw.StructuredFactor, table: torch.Tensor, potentials: torch.Tensor | None = None
) -> None:
    incoming = torch.randn(3, factor.slots, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = factor.max_messages(incoming, potentials)
    values = assignments(factor.arity).astype(int)
    for variable in range(factor.arity):
        scores = table.expand(3, -1).clone()
        for other in range(factor.arity):
            if other != variable:
                scores += incoming[:, 2 * other + values[:, other]]
        best = torch.stack([scores[:, values[:, variable] == value].amax(1) for value in (0, 1)], -1)
        mine = found[:, 2 * variable : 2 * variable + 2]
        finite = torch.isfinite(best)
        assert torch.equal(torch.isfinite(mine), finite)
        expected = best - best.logsumexp(-1, keepdim=True)
        assert mine[finite].numpy() == pytest.approx(expected[finite].numpy(), abs=1e-12)
