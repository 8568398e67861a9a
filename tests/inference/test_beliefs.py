"""Beliefs are computed when first asked for."""

from __future__ import annotations

import torch

from loopwise.graph import chain
from loopwise.inference.beliefs import Beliefs, Status


def test_factors_are_computed_when_first_asked_for_and_once() -> None:
    asked: list[str] = []

    def factor(name: str) -> torch.Tensor:
        asked.append(name)
        return torch.zeros(1)

    def never() -> torch.Tensor:
        raise AssertionError("nobody asked")

    status = Status("Test", False, False, torch.tensor(3), torch.tensor(0.5), messages=7, engine="plain")
    beliefs = Beliefs(chain(2), torch.full((4,), 0.5), factor, never, status)
    assert not asked
    assert beliefs.factor("pair") is beliefs.factor("pair")
    assert asked == ["pair"]
    assert str(status) == "Test: approximate, NOT CONVERGED, 3 sweeps, residual 0.5, 7 messages, plain engine"
    assert "NOT CONVERGED" in repr(beliefs)
