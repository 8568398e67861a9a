"""Exactly one of no variables."""

from __future__ import annotations

import pytest

from loopwise.graph.structured.exactly_one import ExactlyOne


def test_no_variables() -> None:
    with pytest.raises(ValueError, match="at least one variable"):
        ExactlyOne(0)
