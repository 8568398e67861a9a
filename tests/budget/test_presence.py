"""Presence of a factor by its strength."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise import budget
from loopwise.budget.presence import PresenceStep

STEPS: list[PresenceStep] = [budget.Published(), budget.Tanh()]


# --- The step --------------------------------------------------------------------------------------------------------


def test_the_published_step_is_the_formula() -> None:
    strength = torch.tensor([0.2, 0.7, 1.0, 3.0, 50.0], dtype=torch.float64)
    for sharpness in (0.5, 1.0, 4.0):
        wanted = [2 / (1 + math.exp((1 / x) ** sharpness)) for x in strength.tolist()]
        assert budget.Published()(strength, sharpness).tolist() == pytest.approx(wanted, rel=1e-12)
        tanh = [2 / (1 + math.exp(-sharpness * x)) - 1 for x in strength.tolist()]
        assert budget.Tanh()(strength, sharpness).tolist() == pytest.approx(tanh, rel=1e-9)


@pytest.mark.parametrize("step", STEPS)
@given(sharpness=st.floats(0.3, 8.0))
def test_steps_rise_from_0_to_1_through_a_half(step: PresenceStep, sharpness: float) -> None:
    strength = torch.cat([torch.zeros(1), torch.logspace(-3, 4, 200)]).double()
    presence = step(strength, sharpness)
    assert float(presence[0]) == 0.0 and bool((presence >= 0).all()) and bool((presence <= 1).all())
    assert bool((presence.diff() >= 0).all()) and float(presence[-1]) > 0.9
    half = torch.tensor(step.half(sharpness), dtype=torch.float64)
    assert float(step(half, sharpness)) == pytest.approx(0.5, abs=1e-12)


def test_half_is_where_the_spec_says() -> None:
    assert budget.Published().half(1.0) == pytest.approx(1 / math.log(3.0))
    assert round(budget.Published().half(1.0), 3) == 0.910 and round(budget.Published().half(4.0), 3) == 0.977


def test_sharp_steps_are_steps() -> None:
    strength = torch.tensor([0.9, 1.1], dtype=torch.float64)
    assert budget.Published()(strength, 400.0).tolist() == pytest.approx([0.0, 1.0], abs=1e-12)
    assert budget.Tanh()(torch.tensor([0.0, 0.1]).double(), 1e4).tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_slopes_by_differences(step: PresenceStep, sharpness: float) -> None:
    strength = torch.tensor([0.05, 0.3, 0.9, 1.5, 20.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: step(s, sharpness), (strength,))


def test_the_slope_is_that_of_the_spec() -> None:
    strength = torch.tensor([0.3, 0.9, 4.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(budget.Published()(strength, 2.0).sum(), strength)
    u = strength.detach().pow(-2.0)
    wanted = 2 * torch.sigmoid(u) * torch.sigmoid(-u) * 2.0 * u / strength.detach()
    torch.testing.assert_close(slope, wanted)


def test_weak_factors_have_neither_presence_nor_slope() -> None:
    strength = torch.tensor([0.0, 1e-300, 1e-9], dtype=torch.float64, requires_grad=True)
    for sharpness in (1.0, 16.0):
        presence = budget.Published()(strength, sharpness)
        (slope,) = torch.autograd.grad(presence.sum(), strength)
        assert presence.tolist() == [0.0] * 3 and slope.tolist() == [0.0] * 3
