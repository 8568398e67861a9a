"""The decoder: against enumeration and ldpc, its channels, legs and second stages, and what it says of bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from loopwise.apps import Decoder
from loopwise.apps.decoder import (
    OSD,
    Decimation,
    Flips,
    Gaussian,
    Leg,
    MinSum,
    SumProduct,
    relay,
)
from oracles.codes import toric


def test_errors_of_a_repetition_code_are_corrected() -> None:
    path = np.eye(6, 7, dtype=int) + np.eye(6, 7, 1, dtype=int)
    errors = np.array([[int(bit in pair) for bit in range(7)] for pair in ((0,), (3,), (6,), (0, 1), (2, 5))])
    for rule in (SumProduct(), MinSum(0.9), MinSum(offset=0.1)):
        for layered in (False, True):
            decoder = Decoder(csr_matrix(path), 0.05, rule=rule, sweeps=20, layered=layered)
            np.testing.assert_array_equal(decoder.decode_batch(errors @ path.T % 2), errors)
            assert decoder.decode(path @ errors[3] % 2).tolist() == errors[3].tolist()


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


def test_settings_are_told() -> None:
    """Rows of counts add up where settings are the same, so what changes counts must show."""
    code = toric(p=0.1)
    assert repr(Decoder(code, sweeps=5)).endswith("MinSum(scale=1.0, offset=0.0), Leg(5 sweeps))")
    told = repr(Decoder(code, sweeps=5, layered=True, second=OSD(4), solutions=2, double=True, stops=False))
    assert told.endswith(
        "Leg(5 sweeps), layered=True, solutions=2, stops=False, second=OSD(order=4, exhaustive=False), double=True)"
    )


def test_decimation_explains_more() -> None:
    code = toric(p=0.1)
    shots = Flips(code).draw(400, np.random.default_rng(0))
    plain = Decoder(code, rule=SumProduct(), sweeps=10).run(shots.syndromes)
    answer = Decoder(code, rule=SumProduct(), sweeps=10, second=Decimation()).run(shots.syndromes)
    assert answer.explained.sum() > plain.explained.sum() + 0.5 * (~plain.explained).sum()
    fine = (code.checks.syndromes(answer.corrections) == shots.syndromes).all(1)
    np.testing.assert_array_equal(answer.explained, fine)
    np.testing.assert_array_equal(answer.corrections[plain.explained], plain.corrections[plain.explained])
    np.testing.assert_array_equal(answer.sweeps[plain.explained], plain.sweeps[plain.explained])
    more = answer.sweeps[~plain.explained] - plain.sweeps[~plain.explained]
    assert more.min() >= 1 and more.max() <= 20 * 10  # sweeps of its rounds are counted


@pytest.mark.parametrize("scale", [None, 0.7, 1.0])
@pytest.mark.parametrize("p", [0.03, 0.06])
def test_the_same_as_ldpc(scale: float | None, p: float) -> None:
    """Decisions after 1, 2, 5 and 20 sweeps. Of the min-sum (``scale``) all, whatever ties there are; of the
    product-sum where log-odds are not nearly 0 or infinite there."""
    ldpc = pytest.importorskip("ldpc", reason="compares with ldpc, which is not installed")
    code = toric(6, p)
    shots = Flips(code).draw(500, np.random.default_rng(2))
    syndromes = shots.syndromes[shots.syndromes.any(1)]
    for sweeps in (1, 2, 5, 20):
        theirs = ldpc.BpDecoder(
            csr_matrix(code.checks.matrix, dtype=np.uint8),
            error_channel=list(code.priors),
            max_iter=sweeps,
            bp_method="minimum_sum" if scale else "product_sum",
            ms_scaling_factor=scale or 1.0,
            schedule="parallel",
        )
        mine = Decoder(code, rule=MinSum(scale) if scale else SumProduct(), sweeps=sweeps, double=True)
        answer = mine.run(syndromes, soft=True)
        for row, syndrome in enumerate(syndromes):
            hard = theirs.decode(syndrome)
            odds = np.array(theirs.log_prob_ratios)
            if scale or (np.isfinite(odds).all() and abs(odds).min() > 1e-6):
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
        (lambda: Decoder([[1, 1]], "low"), "priors must be probabilities, one or one for each of 2 bits, not 'low'"),
        (lambda: Decoder([[1, 1]], [0.1]), r"priors are of shape \(1,\); give one probability, or one for each of 2"),
        (lambda: Decoder([[1, 1]], 0.1, observables=[[1]]), "the matrix of observables has 1 columns"),
        (lambda: Decoder([[1, 1]], 0.1, sweeps=0), "sweeps must be a whole number of at least 1, not 0"),
        (lambda: Decoder([[1, 1]], 0.1, legs=[]), "legs is empty; give at least one Leg"),
        (lambda: Decoder([[1, 1]], 0.1, legs=[Leg(toric(), 3)]), "was made for another code"),
        (lambda: Decoder([[1, 1]], 0.1, solutions=0), "solutions must be a whole number of at least 1, not 0"),
        (lambda: Decoder([[1, 1]], 0.1, legs=3), "legs must be a list of Leg, not 3"),
        (lambda: Decoder([[1, 1]], 0.1, legs=[3]), "each of legs must be a Leg, not 3"),
        (lambda: Decoder([[1, 1]], 0.1, rule="min-sum"), r"rule must be a MinSum\(...\) or a SumProduct\(\), not 'min"),
        (lambda: Decoder([[1, 1]], 0.1, second=OSD), "second must be an .* not the class OSD itself"),
        (lambda: Decoder([[1, 1]], 0.1, layered="flooding"), "layered must be True or False, not 'flooding'"),
        (lambda: Decoder([[1, 1]], 0.1, threads=0), "threads must be a whole number of at least 1, not 0"),
        (lambda: Decoder([[1, 1], [1]], 0.1), "the check matrix has rows of different lengths"),
        (lambda: Decoder([["1", "1"]], 0.1), "the check matrix must hold numbers, not text"),
        (lambda: Decoder(csr_matrix([[1j]]), 0.1), "the check matrix must hold numbers, not complex128"),
        (lambda: relay(toric(), -1, 3), "legs must be a whole number of at least 0, not -1"),
        (lambda: MinSum("a"), "the scale of the min-sum must be a number above 0, not 'a'"),
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
