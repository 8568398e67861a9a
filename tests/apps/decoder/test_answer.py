"""What a decoder says of shots."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps import Decoder
from loopwise.apps.decoder import OSD, SumProduct
from oracles.codes import HAMMING


def test_probabilities_are_exact_on_a_tree() -> None:
    """By enumeration: two checks that share a bit, a check of one bit, priors on both sides of a half."""
    checks, priors = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]]), np.array([0.1, 0.3, 0.7, 0.05])
    words = (np.arange(16)[:, None] >> np.arange(4)) & 1
    weights = np.where(words, priors, 1 - priors).prod(1)
    for layered in (False, True):
        decoder = Decoder(checks, priors, rule=SumProduct(), sweeps=9, layered=layered, stops=False, double=True)
        for syndrome in ([0, 0, 0], [1, 0, 1], [1, 1, 0]):
            mine = weights * (words @ checks.T % 2 == syndrome).all(1)
            found = decoder.run([syndrome], soft=True).probabilities[0]
            np.testing.assert_allclose(found, mine @ words / mine.sum(), atol=1e-12)


def test_it_tells_what_was_done() -> None:
    answer = Decoder(HAMMING, 0.1, sweeps=1, second=OSD()).run(np.eye(3, dtype=int)[[0, 0]])
    assert answer.status == "2 of 2 syndromes explained; 1.0 sweeps a shot" and answer.flips is None
    seen = Decoder(HAMMING, 0.1, sweeps=1, second=OSD()).run([[1, 1, 1], [1, 0, 0]])
    assert seen.status == "2 of 2 syndromes explained, 1 by a second stage; 1.0 sweeps a shot"
    assert seen.leg.tolist() == [-1, 0]
    nothing = Decoder(HAMMING, 0.1).run(np.zeros((0, 3)))
    assert len(nothing) == 0 and nothing.status == "0 of 0 syndromes explained; 0.0 sweeps a shot"
    with pytest.raises(ValueError, match="a syndrome of this code has 3 bits"):
        Decoder(HAMMING, 0.1).run(np.zeros((1, 4)))
