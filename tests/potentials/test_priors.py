"""Priors: values written out, proximal steps against the minimum they promise, repeated steps against repetition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from loopwise.potentials.priors import L1, L2, GroupSparsity, Prior, Separable

SEPARABLE: list[Separable] = [L1(0.7), L2(0.7), L1(0.0), L2(0.0)]


def tables(seed: int = 0) -> torch.Tensor:
    return torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def steps(seed: int = 1) -> torch.Tensor:
    return 0.1 + torch.rand(5, 2, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_values_are_those_of_the_formulas() -> None:
    table, other = tables(), torch.tensor([3.0, -4.0], dtype=torch.float64)
    assert float(L2(0.5).value([table, other])) == pytest.approx(0.25 * (float((table**2).sum()) + 25))
    assert float(L1(0.5).value([table, other])) == pytest.approx(0.5 * (float(table.abs().sum()) + 7))
    norms = sum(np.sqrt(6) * float(row.norm()) for row in table)
    assert float(GroupSparsity(0.5).value([table])) == pytest.approx(0.5 * norms)
    assert float(GroupSparsity(0.5).value([other])) == pytest.approx(3.5)  # without cells, each number is a group
    assert float(L2(1.0).value([])) == 0.0


@pytest.mark.parametrize("prior", [L1(0.3), L2(0.3), GroupSparsity(0.3)])
def test_a_proximal_step_is_the_minimum_it_promises(prior: Prior) -> None:
    """Nothing near the answer does better: a smooth solver from there, and coordinate nudges, find no lower value."""
    start, scale = tables(), steps()

    def objective(flat: np.ndarray) -> float:
        point = torch.from_numpy(flat.reshape(5, 2, 3))
        return float(((point - start) ** 2 / (2 * scale)).sum() + prior.value([point]))

    answer = prior.prox(start, scale).numpy().reshape(-1)
    reached = objective(answer)
    assert reached < objective(start.numpy().reshape(-1))
    for place in range(len(answer)):
        for nudge in (1e-4, -1e-4):
            assert objective(answer + nudge * (np.arange(len(answer)) == place)) > reached
    assert minimize(objective, answer, method="Powell", options={"maxiter": 3}).fun > reached - 1e-12


@pytest.mark.parametrize("prior", SEPARABLE)
def test_repeated_steps_are_steps_repeated(prior: Separable) -> None:
    once, scale = tables(), steps()
    for _ in range(7):
        once = prior.prox(once, scale)
    torch.testing.assert_close(prior.repeated(tables(), scale, 7), once, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(prior.repeated(tables(), scale, 0), tables(), rtol=0, atol=0)


def test_a_group_vanishes_as_a_whole_or_stays() -> None:
    start = tables()
    start[1] *= 0.01
    kept = GroupSparsity(0.3).prox(start, steps())
    assert bool((kept[1] == 0).all())
    assert bool((kept[0] != 0).all())
    assert bool((kept[0].norm() < start[0].norm()).all())


def test_a_group_under_equal_steps_is_scaled_by_the_textbook_factor() -> None:
    start = tables()
    kept = GroupSparsity(0.2).prox(start, torch.tensor(0.5, dtype=torch.float64))
    for before, after in zip(start, kept, strict=True):
        factor = max(0.0, 1 - 0.5 * 0.2 * np.sqrt(6) / float(before.norm()))
        torch.testing.assert_close(after, factor * before, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(GroupSparsity(0.0).prox(start, steps()), start)


def test_refuses_strengths_that_are_none() -> None:
    for strength in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="strength of L2 must be a finite number"):
            L2(strength)
