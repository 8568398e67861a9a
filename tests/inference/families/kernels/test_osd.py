"""Ordered statistics against enumeration of all that they try."""

from __future__ import annotations

import numpy as np

from loopwise.inference.families.kernels.osd import COMBINATIONS, solve_shots
from loopwise.inference.families.parity import ParityChecks
from loopwise.inference.families.second_stage import columns_of


def test_what_no_bits_explain_is_told() -> None:
    checks = ParityChecks(2, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
    hard, fine = np.zeros((2, 2), np.uint8), np.zeros(2, np.bool_)
    syndromes = np.array([[1, 0], [1, 1]], dtype=np.uint8)
    solve_shots(columns_of(checks), np.array([[0, 1], [1, 0]]), syndromes, np.ones(2), COMBINATIONS, 0, hard, fine)
    assert fine.tolist() == [False, True] and hard[1].tolist() == [0, 1]
