"""Labels that are not known or given: against enumeration of all sets."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps import MultiLabel
from loopwise.apps.multilabel import (
    Annealed,
    ByBeliefs,
    Enumeration,
    LabelERM,
    LabelLikelihood,
    LabelPerceptron,
    LabelSampleRank,
)
from loopwise.learn.label_sets.problem import LabelProblem


def data(count: int = 200, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 4))
    y = (x @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(count, 3)) > 0).astype(int)
    return x, np.concatenate([y, y[:, :1] ^ (rng.random((count, 1)) < 0.1)], 1)


X, Y = data()


def thinned(unknown: Any, share: float = 0.4) -> Any:
    """Labels of which some are not known, as users say that."""
    missing = np.random.default_rng(1).random(Y.shape) < share
    if unknown is None:
        found = Y.astype(object)
        found[missing] = None
        return found
    return np.where(missing, unknown, Y)


@pytest.mark.parametrize("unknown", [None, float("nan"), -1])
@pytest.mark.parametrize("learner", [None, LabelLikelihood(l2=1.0)])
def test_learning_from_some_labels(unknown: Any, learner: Any) -> None:
    model = MultiLabel(learner).fit(X, thinned(unknown))
    assert [pair.tolist() for pair in model.classes_] == [[0, 1]] * 4
    assert model.score(X, Y) > 0.85


@pytest.mark.parametrize("learner", [LabelPerceptron(3), LabelSampleRank(epochs=2, sweeps=5), LabelERM(iterations=5)])
def test_every_kind_of_learner_takes_them(learner: Any) -> None:
    assert MultiLabel(learner).fit(X, thinned(-1)).score(X, Y) > 0.8


def test_likelihood_of_what_is_known() -> None:
    """With exact inference: the mean of minus log the sum over all sets that agree, by enumeration."""
    labels = thinned(-1)[:5]
    model = MultiLabel(LabelLikelihood(l2=1.0, iterations=3, inference=lw.Exact())).fit(X, thinned(-1))
    weights, inputs = model.weights_, model._ready(X[:5])
    learner = LabelLikelihood(l2=0.0, iterations=1, inference=lw.Exact())
    value = float(learner.smooth(LabelProblem(inputs, labels), weights).function(weights.vector)[0])
    sets = np.array(list(product((0, 1), repeat=4)))
    expected = 0.0
    for place in range(5):
        scores = np.exp(weights.score(np.repeat(inputs[place : place + 1], 16, 0), sets))
        agrees = ((labels[place] < 0) | (sets == labels[place])).all(axis=1)
        expected -= np.log(scores[agrees].sum() / scores.sum()) / 5
    assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("decoder", [Enumeration(), Annealed(), ByBeliefs(lw.Exact())], ids=lambda d: type(d).__name__)
def test_given_labels(decoder: Any) -> None:
    model = MultiLabel(LabelLikelihood(l2=0.5, inference=lw.Exact()), decoder=decoder).fit(X, Y)
    given = np.array([[0, -1, -1, 1], [-1, 1, -1, -1], [-1, -1, -1, -1]])
    said, shares = model.predict(X[:3], evidence=given), model.predict_marginals(X[:3], evidence=given)
    sets = np.array(list(product((0, 1), repeat=4)))
    for place in range(3):
        inputs = np.repeat(model._ready(X[place : place + 1]), 16, 0)
        scores = np.exp(model.weights_.score(inputs, sets))
        scores[((given[place] >= 0) & (sets != given[place])).any(axis=1)] = 0.0
        marginals = (scores / scores.sum()) @ sets
        if not isinstance(decoder, Annealed):
            np.testing.assert_allclose(shares[place], marginals, atol=1e-9)
        best = (marginals > 0.5).astype(int) if isinstance(decoder, ByBeliefs) else sets[scores.argmax()]
        assert said[place].tolist() == best.tolist()
    as_written = [[0, None, float("nan"), 1]]
    assert model.predict(X[:1], evidence=as_written).tolist() == said[:1].tolist()
    assert model.predict(X[:1], evidence=[[-1, -1, 1, -1]])[0, 2] == 1  # one class alone is given


def test_labels_without_meaning() -> None:
    model = MultiLabel(LabelPerceptron(1)).fit(X, Y)
    with pytest.raises(ValueError, match="label 0 of example 0 is not known; every label must be, to be compared"):
        model.score(X, np.where(np.arange(len(Y))[:, None] == 0, np.nan, Y))
    with pytest.raises(ValueError, match="3 inputs and 2 rows of evidence"):
        model.predict(X[:3], evidence=Y[:2])
    with pytest.raises(ValueError, match=r"only in column 1"):
        MultiLabel().fit(X, np.where(np.arange(4) == 1, np.nan, Y))
    signs = MultiLabel(LabelPerceptron(1)).fit(X, 2 * Y - 1)
    assert signs.classes_[0].tolist() == [-1, 1]
