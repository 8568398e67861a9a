"""Chains that count by weights: as if each were there so many times, whatever is known of their tags."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loopwise.apps import Tagger
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.problem import ChainProblem
from loopwise.learn.chain.weighted import WeightedChains
from oracles.tagger_text import names

COUNTS = np.array([2, 1, 3])


def problem(repeats: np.ndarray, partial: bool) -> ChainProblem:
    """Three sentences, so many times each, under the rules of IOB2."""
    words, tags = names(3, 0)
    if partial:
        tags = [[None, *row[1:]] for row in tags]
    order = np.repeat(np.arange(3), repeats).tolist()
    tagger = Tagger("w[0] is_title[0] bias", "is_title[0]", threads=1)
    given = [words[k] for k in order], [tags[k] for k in order]
    return tagger.problem(tagger._text(given[0], fitting=True), given[1])


@pytest.mark.parametrize("partial", [False, True])
def test_weights_are_repetitions(partial: bool) -> None:
    once, often = problem(np.ones(3, dtype=int), partial), problem(COUNTS, partial)
    assert once.rules is not None and (once.allowed is not None) is partial
    start = once.start()
    weights = start.like(np.random.default_rng(0).normal(0, 0.5, start.vector.shape))
    value, gradient = WeightedChains(once, COUNTS.astype(float))(weights)
    expected, slope = NegativeLogLikelihood(often)(often.start().like(weights.vector))
    assert value == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)


def test_constant_steps() -> None:
    once = replace(problem(np.ones(3, dtype=int), False), steps=None)
    often = replace(problem(COUNTS, False), steps=None)
    weights = once.start()
    value, gradient = WeightedChains(once, COUNTS.astype(float))(weights)
    expected, slope = NegativeLogLikelihood(often)(often.start())
    assert value == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)
