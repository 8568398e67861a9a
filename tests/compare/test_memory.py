"""The memory of a call."""

from __future__ import annotations

import pytest
import torch

from loopwise.compare.memory import peak_rise


def test_memory_is_that_of_the_call() -> None:
    megabytes = 64
    found = peak_rise(lambda: torch.ones(megabytes * 2**20 // 8, dtype=torch.float64).sum())
    if found is None:
        pytest.skip("this system does not tell the peak of memory")
    assert 0.9 * megabytes < found / 2**20 < 1.5 * megabytes
