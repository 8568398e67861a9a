"""Derivatives by differences know how far off they are."""

from __future__ import annotations

import math

import pytest

from loopwise.gradient.differences import derivative


def test_derivative_knows_its_error() -> None:
    found, error = derivative(lambda x: math.exp(2 * x) + math.sin(x) ** 2)
    assert abs(found - 2) <= 10 * error < 1e-9


def test_derivative_leaves_out_steps_without_a_value() -> None:
    found, _ = derivative(lambda x: math.exp(x) if abs(x) < 0.004 else math.nan)
    assert found == pytest.approx(1, abs=1e-9)
