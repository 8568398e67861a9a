"""Thresholds: hand-worked medians, limits, gradients, the sampled threshold against brute force."""

from __future__ import annotations

import itertools

import pytest

import loopwise as lw
from loopwise import decode
from oracles.made_beliefs import binary, random_beliefs


def test_the_median_of_each_example() -> None:
    beliefs = binary([[0.1, 0.2, 0.3, 0.4], [0.9, 0.6, 0.8, 0.7]])
    decision = decode.ApproximateF(decode.PerExample())(beliefs)
    assert decision.hard
    assert decision.assignment.tolist() == [[0, 0, 1, 1], [1, 0, 1, 0]]


def test_the_median_of_a_corpus() -> None:
    decoder = decode.ApproximateF()
    assert decoder.needs_refresh
    batches = [binary([[0.1, 0.2, 0.3, 0.4]]), binary([[0.9, 0.6, 0.8, 0.7]])]
    decoder.refresh((beliefs, None) for beliefs in batches)
    assert float(decoder.threshold.kappa) == pytest.approx(0.5)
    assert decoder(batches[0]).assignment.tolist() == [[0, 0, 0, 0]]
    assert decoder.soft().hard()(batches[1]).assignment.tolist() == [[1, 1, 1, 1]]
    assert decoder.state_dict()["threshold.kappa"] == decoder.threshold.kappa  # so a checkpoint has it


def test_a_weighted_f_prefers_recall() -> None:
    beliefs = binary([[0.1, 0.2, 0.3, 0.5]])
    counts = [
        int(decode.ApproximateF(decode.LeastExpectedLoss(decode.Independent(), beta=beta))(beliefs).assignment.sum())
        for beta in (0.2, 5.0)
    ]
    assert counts[0] < counts[1]


def test_bad_input() -> None:
    beliefs = binary([[0.2, 0.8]])
    with pytest.raises(ValueError, match=r"not known yet: call the decoder's refresh"):
        decode.ApproximateF()(beliefs)
    with pytest.raises(ValueError, match="nothing to take a median of"):
        decode.ApproximateF().refresh([(beliefs, [False, False])])
    with pytest.raises(ValueError, match=r"from 0 to 1, not 1\.5"):
        decode.Fixed(1.5)
    with pytest.raises(ValueError, match="beta must be positive"):
        decode.LeastExpectedLoss(beta=0)
    with pytest.raises(ValueError, match="positive label 2"):
        decode.ApproximateF(decode.PerExample(), positive=2)(beliefs)
    pair = lw.chain(2)
    with pytest.raises(ValueError, match="decides single variables"):
        decode.SoftApproximateF(decode.PerExample())(random_beliefs(pair)).factor("pair")
    assert list(itertools.chain(decode.ApproximateF(temperature=decode.Trained()).parameters()))
