"""Rules of sums and of minima."""

from __future__ import annotations

import numpy as np
import torch

from loopwise.apps import Decoder
from loopwise.apps.decoder import (
    Code,
    Flips,
    MinSum,
    SumProduct,
)
from loopwise.inference.families.parity import Passing, decode
from oracles.codes import toric


def test_a_tree_is_decoded_exactly() -> None:
    """On a repetition code, soft output is the posterior, and the decision the likeliest pair."""
    code = Code.of([[1, 1, 0], [0, 1, 1]], [0.1, 0.2, 0.3])
    answer = Decoder(code, rule=SumProduct(), sweeps=8, double=True, stops=False).run([[1, 0], [0, 1]], soft=True)
    for row, syndrome in enumerate(([1, 0], [0, 1])):
        first = np.array([0, syndrome[0], (syndrome[0] + syndrome[1]) % 2])
        weights = [np.prod(np.where(flips == 1, code.priors, 1 - code.priors)) for flips in (first, 1 - first)]
        posterior = (weights[0] * first + weights[1] * (1 - first)) / sum(weights)
        np.testing.assert_allclose(answer.probabilities[row], posterior, atol=1e-9)
    assert answer.explained.all() and answer.flips is None


def test_double_precision_is_that_of_the_settings_too() -> None:
    code = toric()
    syndromes = Flips(code).draw(20, np.random.default_rng(0)).syndromes
    decoder = Decoder(code, rule=MinSum(0.7, 0.1), sweeps=6, double=True, stops=False)
    scale, offset = (torch.full((1, code.checks.edges), value, dtype=torch.float64) for value in (0.7, 0.1))
    passing = Passing(scale, offset, torch.zeros(0, 32), min_sum=True)
    wanted = decode(code.checks, passing, code.log_odds, syndromes, 6, stops=False, soft=True)
    np.testing.assert_allclose(decoder.run(syndromes, soft=True).log_odds, wanted.soft, atol=1e-13)
