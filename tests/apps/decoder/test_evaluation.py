"""Failures are counted up to stabilisers."""

from __future__ import annotations

import numpy as np

from oracles.codes import toric


def test_failures_are_counted_up_to_stabilisers() -> None:
    code = toric()
    stabiliser = np.zeros((1, code.bits), np.uint8)
    stabiliser[0, [0, 3, 16, 28]] = 1  # the edges at a vertex
    nothing = np.zeros((1, code.bits), np.uint8)
    assert not code.checks.syndromes(stabiliser).any()
    assert not code.failures(stabiliser, nothing).any()
    loop = nothing.copy()
    loop[0, [0, 4, 8, 12]] = 1  # around the torus, across the loop that is looked at
    assert not code.checks.syndromes(loop).any()
    assert code.failures(loop, nothing).all()
