"""Sequential visits with messages as vectors, against the same visits without, and both against sums written out."""

from __future__ import annotations

import pytest
import torch

from loopwise.inference.messages.kernel_run import KernelRun, TapeSpec
from loopwise.inference.messages.schedules import Sequential
from oracles.kernel_cases import KernelCase


@pytest.mark.parametrize("vectors", [True, False])
def test_sequential_sweeps_of_pairs(vectors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not vectors:
        monkeypatch.setattr(KernelRun, "_as_vectors", lambda self, options: False)
    case = KernelCase(pairs=True)
    run, options = case.kernel_run(), case.options(3, Sequential())
    assert run._as_vectors(options) is vectors
    result = run.start(options, case.numbers(case.start), TapeSpec())
    expected = case.gone_round(case.theta, case.unary, case.start, 3)
    torch.testing.assert_close(torch.from_numpy(result.m), expected.exp())
    torch.testing.assert_close(torch.from_numpy(result.beliefs), case.beliefs(case.unary, expected).exp())
    torch.testing.assert_close(case.logs(result.n), case.normalised(case.to_factors(case.unary, expected)))
