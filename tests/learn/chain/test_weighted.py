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


def problems(partial: bool) -> tuple[ChainProblem, ChainProblem]:
    """Three sentences under the rules of IOB2, once each and so many times each, with the same features."""
    words, tags = names(3, 0)
    if partial:
        tags = [[None, *row[1:]] for row in tags]
    tagger = Tagger("w[0] is_title[0] bias", "is_title[0]", threads=1, warm_start=True)
    once = tagger.problem(tagger._text(words, fitting=True), tags)
    tagger.weights_ = once.start()  # from here on features stay as they are
    order = np.repeat(np.arange(3), COUNTS).tolist()
    return once, tagger.problem(tagger._text([words[k] for k in order]), [tags[k] for k in order])


def assert_same(once: ChainProblem, often: ChainProblem) -> None:
    start = once.start()
    weights = start.like(np.random.default_rng(0).normal(0, 0.5, start.vector.shape))
    value, gradient = WeightedChains(once, COUNTS.astype(float))(weights)
    expected, slope = NegativeLogLikelihood(often)(weights)
    assert value == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)


@pytest.mark.parametrize("partial", [False, True])
def test_weights_are_repetitions(partial: bool) -> None:
    once, often = problems(partial)
    assert once.rules is not None and (once.allowed is not None) is partial
    assert_same(once, often)


def test_constant_steps() -> None:
    assert_same(*(replace(problem, steps=None) for problem in problems(False)))
