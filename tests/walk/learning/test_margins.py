"""Margins: a multiple of the difference plus a constant."""

from __future__ import annotations

import pytest

from loopwise.walk.learning.margins import ConstantMargin, Margin, OmegaMargin, ScaledMargin


def test_margins_by_hand() -> None:
    assert [margin(0.25) for margin in (OmegaMargin(), ScaledMargin(4), ConstantMargin(), Margin(2.0, 0.5))] == [
        0.25,
        1.0,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize(("scale", "constant"), [(0.0, 0.0), (-1.0, 2.0), (1.0, -0.1), (float("inf"), 0.0)])
def test_margins_that_are_none(scale: float, constant: float) -> None:
    with pytest.raises(ValueError, match="a margin must be positive and finite"):
        Margin(scale, constant)
