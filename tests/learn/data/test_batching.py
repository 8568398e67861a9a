"""Batches of about equal work."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from oracles.template_cases import (
    SENTENCES,
    SkipChain,
)


def test_batches_of_about_equal_work() -> None:
    examples = lw.TemplateExamples.of(SkipChain(), SENTENCES)
    assert examples.sizes.tolist() == [6 + 12, 2, 8 + 24, 4 + 4, 8 + 16]
    assert [part.tolist() for part in examples.batch_indices(lw.learn.TotalSize(30))] == [[0, 1], [2], [3], [4]]
    assert [part.tolist() for part in examples.batch_indices(lw.learn.TotalSize(52))] == [[0, 1, 2], [3, 4]]
    assert [part.tolist() for part in examples.batch_indices(2)] == [[0, 1], [2, 3], [4]]
    assert examples.usual_step == lw.learn.TotalSize(round(32 * 84 / 5))
    shuffled = examples.batch_indices(lw.learn.TotalSize(52), torch.Generator().manual_seed(0))
    assert sorted(np.concatenate(shuffled).tolist()) == [0, 1, 2, 3, 4]
    assert all(examples.sizes[part].sum() <= 52 for part in shuffled)
    with pytest.raises(ValueError, match="total size of a batch must be a whole number of at least 1, not 0"):
        lw.learn.TotalSize(0)
