"""Shots: words received, and bad ones."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps import Decoder
from loopwise.apps.decoder import (
    Flips,
    Gaussian,
    Shots,
    SumProduct,
    awgn,
    bsc,
    erasures,
)
from oracles.codes import HAMMING


def test_received_words_are_decoded() -> None:
    decoder = Decoder(HAMMING, 0.05, rule=SumProduct(), sweeps=20)
    word = np.array([1, 1, 1, 0, 0, 0, 0])  # a codeword
    assert not (HAMMING @ word % 2).any()
    heard = np.where(word == 0, 1.0, -1.0)
    heard[0] = 0.2  # a wrong sign, faintly
    assert decoder.decode_received(awgn(heard[None], 0.7)).tolist() == [word.tolist()]
    flipped = word.copy()
    flipped[4] ^= 1
    assert decoder.decode_received(bsc(flipped[None], 0.1)).tolist() == [word.tolist()]
    lost = word.copy()
    lost[[1, 5]] = -1
    assert decoder.decode_received(erasures(lost[None])).tolist() == [word.tolist()]
    shots = Gaussian(decoder.code, 8.0).draw(200, np.random.default_rng(0))
    assert decoder.evaluate(shots).rate < 0.05


def test_bad_shots_get_one_sentence() -> None:
    decoder = Decoder(HAMMING, 0.1)
    for make, problem in (
        (lambda: awgn([1.0], 0.0), "the standard deviation sigma must be a number above 0, not 0.0"),
        (lambda: awgn(["a"], 1.0), "what was received must hold numbers, not text"),
        (lambda: bsc([0, 2], 0.1), r"must be 0 or 1; bits that were lost are for erasures\(\)"),
        (lambda: bsc([0, 1], 0.0), "the probability of a flip is 0"),
        (lambda: Gaussian(decoder.code, []), "a Gaussian channel needs a rate above 0 and finite decibels"),
        (lambda: Shots(np.zeros((2, 3)), np.zeros((3, 7))), "there are 2 syndromes, but 3 rows of errors"),
        (lambda: decoder.evaluate(Shots(np.zeros((2, 3)), np.zeros((2, 6)))), "errors of these shots are of shape"),
        (lambda: Shots(np.zeros(3)), r"the syndromes of shots are of shape \(3,\); give a row for each shot"),
        (lambda: Shots([["a"]]), "the syndromes of shots must hold numbers, not text"),
        (lambda: decoder.evaluate(Shots([[0, 1, 0]], [[2] * 7])), "the errors of these shots must be 0 or 1"),
        (
            lambda: decoder.fit(Shots([[0] * 3] * 2, [[0] * 7] * 2, None, [[1.0] * 7, [np.nan] * 7])),
            "of shot 1 hold NaN",
        ),
        (lambda: decoder.evaluate(5, 5), "the source must be shots, or a sampler that draws them"),
        (lambda: decoder.evaluate(Flips(decoder.code), 0), "shots must be a whole number of at least 1, not 0"),
        (lambda: decoder.receive([["a"] * 7]), "log-odds must hold numbers, not text"),
        (lambda: decoder.decode_batch([[1, 0, 1], [1]]), "a syndrome has rows of different lengths"),
    ):
        with pytest.raises(ValueError, match=problem):
            make()
    with pytest.raises(ValueError, match=r"a syndrome of this code has 3 bits; the one given is of shape \(4,\)"):
        decoder.decode([0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"a syndrome of this code has 3 bits; the array given is of shape \(1, 4\)"):
        decoder.decode_batch([[0, 1, 0, 1]])
    with pytest.raises(ValueError, match="the bits of a syndrome must be 0 or 1"):
        decoder.decode([0, 1, 2])
    with pytest.raises(
        ValueError, match=r"log-odds are of shape \(1, 3\); there must be a row of 7 for each of 1 shots"
    ):
        decoder.decode_received([[0.0, 1.0, 2.0]])
    with pytest.raises(ValueError, match=r"of shape \(7,\); give a row of 7 for each word received"):
        decoder.decode_received(np.ones(7))
    with pytest.raises(ValueError, match="the log-odds of shot 0 hold NaN"):
        decoder.decode_received([[np.nan] * 7])
    with pytest.raises(ValueError, match="a sampler draws any number of shots; say how many"):
        decoder.evaluate(Flips(decoder.code))
    assert len(decoder.run(np.zeros((0, 3)))) == 0
