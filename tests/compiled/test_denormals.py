"""The smallest numbers as zero, and only as long as asked."""

from __future__ import annotations

import pytest
import torch

from loopwise.compiled.denormals import is_flushing, tiny_as_zero


def test_tiny_numbers_count_again_afterwards() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor has no such mode")
    with tiny_as_zero():
        assert is_flushing()
        with tiny_as_zero():
            assert is_flushing()
        assert is_flushing()  # as it was
    assert not is_flushing()
    with pytest.raises(ZeroDivisionError), tiny_as_zero():
        _ = 1 / 0
    assert not is_flushing()
