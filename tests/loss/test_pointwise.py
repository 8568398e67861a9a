"""Losses of one distribution by their formulas, with one right value and with several."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.loss.pointwise import SMALLEST, log_loss, miss, smooth_error, squared_distance

P = torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.1, 0.9]], dtype=torch.float64)
ONE = torch.tensor([[True, False, False], [False, False, True]])
SOME = torch.tensor([[True, False, True], [False, True, True]])


def test_one_right_value_gives_the_published_formulas() -> None:
    assert miss(P, ONE).tolist() == pytest.approx([0.8, 0.1])
    assert log_loss(P, ONE).tolist() == pytest.approx([-np.log(0.2), -np.log(0.9)])
    assert squared_distance(P, ONE).tolist() == pytest.approx([0.64 + 0.25 + 0.09, 0.01 + 0.01])
    assert smooth_error(P, ONE, 5.0).tolist() == pytest.approx([1 / (1 + np.exp(-5 * 0.3)), 1 / (1 + np.exp(5 * 0.8))])


def test_any_distribution_on_the_right_values_is_as_good_as_another() -> None:
    assert miss(P, SOME).tolist() == pytest.approx([0.5, 0.0])
    assert log_loss(P, SOME).tolist() == pytest.approx([-np.log(0.5), 0.0])
    assert squared_distance(P, SOME).tolist() == pytest.approx([0.25 + 0.25 / 2, 0.0])
    nearest = torch.tensor([0.45, 0.0, 0.55], dtype=torch.float64)  # an equal part of what is missing to each
    assert float((P[0] - nearest).square().sum()) == pytest.approx(float(squared_distance(P, SOME)[0]))
    assert smooth_error(P, torch.ones_like(ONE), 5.0).tolist() == [0.0, 0.0]


def test_what_is_most_wrong_keeps_its_slope() -> None:
    impossible = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    value = log_loss(impossible, torch.tensor([True, False]))
    (slope,) = torch.autograd.grad(value, impossible)
    assert float(value.detach()) == pytest.approx(-np.log(SMALLEST)) and slope[0] == pytest.approx(-1 / SMALLEST)
