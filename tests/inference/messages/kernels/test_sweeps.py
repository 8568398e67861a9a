"""Messages of tables in either domain, against sums over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.inference.messages.kernels.sweeps import largest_change


def test_change() -> None:
    old, new = np.log([[0.5, 0.5, 0.9, 0.1]]), np.log([[0.2, 0.8, 0.5, 0.5]])
    change = np.zeros(1)
    largest_change(np.arange(1), new, old, change)
    assert change[0] == pytest.approx(np.log(5.0))
