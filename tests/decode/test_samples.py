"""Samples for decoders."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import decode
from oracles.made_beliefs import random_beliefs, wrong_at_all


def test_independent_samples_have_the_marginals() -> None:
    graph = lw.FactorGraph([2, 3, 1], {})
    beliefs = random_beliefs(graph, (2,), scale=1.0)
    samples = decode.Independent()(beliefs, 20_000, seed=0)
    assert samples.shape == (20_000, 2, 3)
    for variable in range(3):
        shares = torch.nn.functional.one_hot(samples[..., variable], graph.cardinalities[variable]).double().mean(0)
        torch.testing.assert_close(shares, beliefs.marginal(variable), atol=0.02, rtol=0)
    assert torch.equal(samples, decode.Independent()(beliefs, 20_000, seed=0))


def test_samples_of_your_own() -> None:
    graph = lw.chain(2)
    beliefs = random_beliefs(graph)
    samples = torch.tensor([[0, 1], [0, 1], [1, 0]])
    guess = decode.MBR(wrong_at_all, decode.Drawn(samples), count=3)(beliefs)
    assert guess.assignment.tolist() == [0, 1]
    with pytest.raises(ValueError, match="4 are needed"):
        decode.MBR(wrong_at_all, decode.Drawn(samples), count=4)(beliefs)
