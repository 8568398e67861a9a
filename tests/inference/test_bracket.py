"""The truth lies within a bracket, and what did not arrive bounds nothing."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise.inference import bracket as module
from loopwise.inference.base import Problem
from loopwise.inference.bracket import bracket
from oracles.enumeration import enumerate_model

GRID = lw.grid(3, 3, 2)


def problem(coupling: float, seed: int) -> Problem:
    draws = torch.Generator().manual_seed(seed)
    tables = {
        group.name: coupling * torch.randn(group.count, *group.shape, generator=draws, dtype=torch.float64)
        for group in GRID.groups
    }
    return Problem(GRID, tables, torch.Size(()), torch.zeros(0, dtype=torch.float64))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("coupling", [0.3, 2.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_truth_lies_within(coupling: float, seed: int, temperature: float) -> None:
    given = problem(coupling, seed)
    truth = enumerate_model(GRID, given.tables, temperature).log_partition
    found = bracket(given, temperature)
    assert float(found.lower) <= truth + 1e-9
    assert float(found.upper) >= truth - 1e-9
    if coupling < 1:
        assert float(found.upper - found.lower) < 1


def test_a_bound_that_is_known_is_not_worked_out_again() -> None:
    low, high = torch.tensor(-7.0), torch.tensor(9.0)
    assert bracket(problem(0.3, 1), lower=low, upper=high) == (low, high)


def test_a_run_that_did_not_arrive_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEPS", 1)
    found = bracket(problem(2.0, 1))
    assert float(found.upper) == torch.inf
    assert torch.isfinite(found.lower)
