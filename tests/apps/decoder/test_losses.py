"""Losses of decodings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from loopwise.apps.decoder import Code, Flips
from loopwise.apps.decoder.losses import BitErrors, BitwiseCrossEntropy, BlockError, ObservableFlips, ResidualParity
from oracles.codes import HAMMING, toric


def test_losses() -> None:
    code = toric()
    shots = Flips(code).draw(50, np.random.default_rng(0))
    assert shots.errors is not None
    right = torch.tensor(np.where(shots.errors == 1, -20.0, 20.0))[None]
    for loss in (ResidualParity(), ObservableFlips(), BitwiseCrossEntropy(), BitErrors(), BlockError()):
        assert float(loss(code, right, shots)) < 1e-6
    stabiliser = np.zeros(code.bits, np.uint8)
    stabiliser[[0, 3, 16, 28]] = 1
    same = torch.tensor(np.where(shots.errors ^ stabiliser == 1, -20.0, 20.0))[None]
    assert float(ResidualParity()(code, same, shots)) < 1e-6  # as good
    assert float(BlockError()(code, same, shots)) > 0.99 and float(BitwiseCrossEntropy()(code, same, shots)) > 1
    assert float(BitErrors()(code, same, shots)) == pytest.approx(4 / code.bits, abs=1e-6)
    unseen = replace(shots, errors=None)
    assert float(ResidualParity()(code, same, unseen)) < 1e-6
    wrong = right.clone()
    wrong[..., 0] *= -1
    assert float(ResidualParity()(code, wrong, shots)) > 0.1 and float(ResidualParity()(code, wrong, unseen)) > 0.1
    with pytest.raises(ValueError, match="this loss needs to know which bits were flipped"):
        BlockError()(code, right, unseen)
    with pytest.raises(ValueError, match="ObservableFlips needs a code with observables"):
        ObservableFlips()(Code.of(HAMMING, 0.1), right, shots)
