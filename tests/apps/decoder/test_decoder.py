"""The decoder: against enumeration and ldpc, its channels, legs and second stages, and what it says of bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from loopwise.apps import Decoder
from loopwise.apps.decoder import (
    OSD,
    Code,
    Decimation,
    Flips,
    Gaussian,
    Leg,
    MinSum,
    SumProduct,
    awgn,
    bsc,
    erasures,
    relay,
)
from loopwise.inference.parity import Passing, decode
from oracles.codes import HAMMING, toric


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


def test_errors_of_a_repetition_code_are_corrected() -> None:
    path = np.eye(6, 7, dtype=int) + np.eye(6, 7, 1, dtype=int)
    errors = np.array([[int(bit in pair) for bit in range(7)] for pair in ((0,), (3,), (6,), (0, 1), (2, 5))])
    for rule in (SumProduct(), MinSum(0.9), MinSum(offset=0.1)):
        for layered in (False, True):
            decoder = Decoder(csr_matrix(path), 0.05, rule=rule, sweeps=20, layered=layered)
            np.testing.assert_array_equal(decoder.decode_batch(errors @ path.T % 2), errors)
            assert decoder.decode(path @ errors[3] % 2).tolist() == errors[3].tolist()


def test_double_precision_is_that_of_the_settings_too() -> None:
    code = toric()
    syndromes = Flips(code).draw(20, np.random.default_rng(0)).syndromes
    decoder = Decoder(code, rule=MinSum(0.7, 0.1), sweeps=6, double=True, stops=False)
    scale, offset = (torch.full((1, code.checks.edges), value, dtype=torch.float64) for value in (0.7, 0.1))
    passing = Passing(scale, offset, torch.zeros(0, 32), min_sum=True)
    wanted = decode(code.checks, passing, code.log_odds, syndromes, 6, stops=False, soft=True)
    np.testing.assert_allclose(decoder.run(syndromes, soft=True).log_odds, wanted.soft, atol=1e-13)


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


def test_ordered_statistics_always_explain() -> None:
    code = toric(p=0.1)
    shots = Flips(code).draw(400, np.random.default_rng(0))
    plain = Decoder(code, sweeps=5)
    for second in (OSD(), OSD(6), OSD(4, exhaustive=True)):
        decoder = Decoder(code, sweeps=5, second=second)
        answer = decoder.run(shots.syndromes)
        assert answer.explained.all() and 0 < answer.second < 400
        np.testing.assert_array_equal(code.checks.syndromes(answer.corrections), shots.syndromes)
        assert decoder.evaluate(shots).errors < plain.evaluate(shots).errors


def test_decimation_explains_more() -> None:
    code = toric(p=0.1)
    shots = Flips(code).draw(400, np.random.default_rng(0))
    plain = Decoder(code, rule=SumProduct(), sweeps=10).run(shots.syndromes)
    answer = Decoder(code, rule=SumProduct(), sweeps=10, second=Decimation()).run(shots.syndromes)
    assert answer.explained.sum() > plain.explained.sum() + 0.5 * (~plain.explained).sum()
    fine = (code.checks.syndromes(answer.corrections) == shots.syndromes).all(1)
    np.testing.assert_array_equal(answer.explained, fine)
    np.testing.assert_array_equal(answer.corrections[plain.explained], plain.corrections[plain.explained])


@pytest.mark.parametrize("min_sum", [False, True])
def test_the_same_as_ldpc(min_sum: bool) -> None:
    """Decisions after 1, 2, 5 and 20 sweeps; where log-odds are nearly 0 or infinite there, rounding decides."""
    ldpc = pytest.importorskip("ldpc", reason="compares with ldpc, which is not installed")
    code = toric(6, 0.06)
    shots = Flips(code).draw(500, np.random.default_rng(2))
    syndromes = shots.syndromes[shots.syndromes.any(1)]
    method = "minimum_sum" if min_sum else "product_sum"
    for sweeps in (1, 2, 5, 20):
        theirs = ldpc.BpDecoder(
            csr_matrix(code.checks.matrix, dtype=np.uint8),
            error_channel=list(code.priors),
            max_iter=sweeps,
            bp_method=method,
            ms_scaling_factor=0.7,
            schedule="parallel",
        )
        mine = Decoder(code, rule=MinSum(0.7) if min_sum else SumProduct(), sweeps=sweeps, double=True)
        answer = mine.run(syndromes, soft=True)
        for row, syndrome in enumerate(syndromes):
            hard = theirs.decode(syndrome)
            odds = np.array(theirs.log_prob_ratios)
            if np.isfinite(odds).all() and abs(odds).min() > 1e-6:
                assert hard.tolist() == answer.corrections[row].tolist()
                assert bool(theirs.converge) == bool(answer.explained[row])
                np.testing.assert_allclose(answer.log_odds[row], odds, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Decoder([[1, 1], [0, 0]], 0.1), "row 1 of the check matrix is empty: it checks nothing; remove it"),
        (lambda: Decoder([[1, 2]], 0.1), "the check matrix has an entry 2; entries must be 0 or 1"),
        (lambda: Decoder([1, 0], 0.1), "the check matrix must be two-dimensional"),
        (lambda: Decoder(np.zeros((0, 3)), 0.1), r"the check matrix is of shape \(0, 3\)"),
        (lambda: Decoder([[1, 1]]), "a check matrix says nothing of how likely flips are; give priors"),
        (lambda: Decoder([[1, 1]], 0.0), "the prior is 0; it must be above 0 and below 1"),
        (lambda: Decoder([[1, 1]], [0.1, 1.0]), "the prior of bit 1 is 1; it must be above 0 and below 1"),
        (lambda: Decoder([[1, 1]], [float("nan"), 0.1]), "the prior of bit 0 is nan; it must be above 0 and below 1"),
        (lambda: Decoder([[1, 1]], [0.1]), r"priors are of shape \(1,\); give one probability, or one for each of 2"),
        (lambda: Decoder([[1, 1]], 0.1, observables=[[1]]), "the matrix of observables has 1 columns"),
        (lambda: Decoder([[1, 1]], 0.1, sweeps=0), "sweeps must be a whole number of at least 1, not 0"),
        (lambda: Decoder([[1, 1]], 0.1, legs=[]), "legs is empty; give at least one Leg"),
        (lambda: Decoder([[1, 1]], 0.1, legs=[Leg(toric(), 3)]), "was made for another code"),
        (lambda: Decoder([[1, 1]], 0.1, solutions=0), "solutions must be a whole number of at least 1, not 0"),
        (lambda: MinSum(0.0), "the scale of the min-sum must be a number above 0, not 0.0"),
        (lambda: MinSum(offset=-1.0), "the offset of the min-sum must be a number of at least 0, not -1.0"),
        (lambda: OSD(30, exhaustive=True), r"would try 2\*\*30 sets for each shot; give at most 20"),
        (lambda: OSD(-1), "the order of ordered statistics must be a whole number of at least 0, not -1"),
        (lambda: Decimation(rounds=0), "rounds of a decimation must be a whole number of at least 1, not 0"),
        (lambda: Decimation(share=0.0), "the share of bits decided in a round must be above 0 and at most 1, not 0.0"),
        (lambda: Leg(toric(), 3, memory=1.0), "strengths of memory must be finite and below 1"),
        (lambda: Leg(toric(), 3, memory=[0.1]), r"memory is of shape \(1,\); give one strength"),
        (lambda: Leg(toric(), 3, edge_ties=[0]), "edge_ties must be whole numbers from 0, one for each of 64 edges"),
        (lambda: relay(toric(), 2, 3, interval=(0.5, 1.0)), "must rise and end below 1"),
        (lambda: Gaussian(toric(), float("nan")), "a Gaussian channel needs a rate above 0 and finite decibels"),
    ],
)
def test_bad_settings_get_one_sentence(make: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


def test_bad_shots_get_one_sentence() -> None:
    decoder = Decoder(HAMMING, 0.1)
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
    with pytest.raises(ValueError, match="the log-odds of shot 0 hold NaN"):
        decoder.decode_received([[np.nan] * 7])
    with pytest.raises(ValueError, match="a sampler draws any number of shots; say how many"):
        decoder.evaluate(Flips(decoder.code))
    assert len(decoder.run(np.zeros((0, 3)))) == 0
