"""stim, where it is installed."""

from __future__ import annotations

import pytest


@pytest.fixture
def stim():  # type: ignore[no-untyped-def]
    return pytest.importorskip("stim", reason="needs stim: pip install 'loopwise[decoder]'")
