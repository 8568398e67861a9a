"""Batches instead of all data at once: weights come near those of whole training, and iterators will do."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from loopwise.apps import ChainCRF, MRFClassifier, MultiLabel, Tagger
from loopwise.apps.chain import ChainPerceptron
from loopwise.apps.multilabel import LabelLikelihood, LabelPegasos

WORDS = np.array(["Ann", "Bob", "Zoe", "the", "dog", "ran", "saw"])


def rows(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(count, 3))
    return x, (x @ [[1, 0], [-1, 1], [0, 1]] > 0).astype(int)


def bursts(count: int = 120) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    labels = [np.repeat(rng.integers(0, 2, 5), 4) for _ in range(count)]
    return [np.stack([row, 1 - row], 1) + rng.normal(0, 0.9, (20, 2)) for row in labels], labels


def text(count: int = 120) -> tuple[list[list[str]], list[list[str]]]:
    words = WORDS[np.random.default_rng(0).integers(0, 7, (count, 6))].tolist()
    return words, [["B-PER" if word[0].isupper() else "O" for word in row] for row in words]


def batches(x: Any, y: Any, until: int, size: int = 25) -> Any:
    return ((x[first : first + size], y[first : first + size]) for first in range(0, until, size))


@pytest.mark.parametrize("model", [MultiLabel(), MultiLabel(LabelLikelihood(l2=1.0)), MRFClassifier(), ChainCRF()])
def test_batches_come_near_the_whole(model: Any) -> None:
    x, y = bursts(400) if isinstance(model, ChainCRF) else rows()
    y = y[:, 0] if isinstance(model, MRFClassifier) else y
    whole = type(model)(**model.get_params(deep=False)).fit(x[:300], y[:300], progress=False)
    least = whole.score(x[300:], y[300:]) - 0.06
    epochs = 1 if isinstance(model, MultiLabel) and model.learner is None else 5
    model.fit_batches(lambda: batches(x, y, 300, 100), epochs=epochs, classes=[0, 1], progress=False)
    assert model.score(x[300:], y[300:]) > least
    again = pickle.loads(pickle.dumps(model))
    assert again.score(x[300:], y[300:]) == model.score(x[300:], y[300:])
    again.partial_fit(x[:20], y[:20])  # goes on, with fresh steps


def test_a_tagger_grows_with_its_batches() -> None:
    words, tags = text()
    tagger = Tagger().partial_fit(words[:5], [["O"] * 6] * 5)
    first = len(tagger.weights_.vector)
    assert tagger.labels_ == ("O",)
    tagger.fit_batches(batches(words, tags, 100), epochs=1, progress=False)  # an iterator
    assert tagger.labels_ == ("O", "B-PER") and len(tagger.weights_.vector) > first
    assert tagger.score(words[100:], tags[100:]) == 1.0
    hashed = Tagger(hashing=512).fit_batches(batches(words, tags, 100), classes=["I-PER"], progress=False)
    assert hashed.labels_ == ("O", "B-PER", "I-PER") and hashed.weights_.unary.shape == (512, 3)
    assert hashed.score(words[100:], tags[100:]) == 1.0


def test_weights_stay_where_they_were_when_a_tagger_grows() -> None:
    """With steps of no length, what a tagger knew of old features and tags must be what it knows of them now."""
    words, tags = text()
    tagger = Tagger("w[0] bias").partial_fit(words[:3], tags[:3], classes=["B-PER"])
    before = tagger.predict_marginals(words[:3])
    assert tagger._stream is not None
    tagger._stream.rate = 0.0
    tagger.partial_fit([["new", "words"], *words[3:6]], [["A", "Z"], *tags[3:6]])
    order = [tagger.labels_.index(tag) for tag in ("O", "B-PER")]
    assert tagger.labels_ == ("O", "A", "B-PER", "Z")
    for old, new in zip(before, tagger.predict_marginals(words[:3]), strict=True):
        odds, later = np.log(old[:, 1] / old[:, 0]), np.log(new[:, order[1]] / new[:, order[0]])
        assert np.sign(odds).tolist() == np.sign(later).tolist()
    np.testing.assert_allclose(np.abs(tagger.weights_.unary[:, [1, 3]]), 0.0)  # new tags know nothing yet


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Tagger().fit_batches(iter([]), progress=False), "there are no batches"),
        (lambda: Tagger().fit_batches(iter([]), epochs=2), "an iterator is empty after one epoch"),
        (lambda: Tagger().fit_batches([], epochs=0), "epochs must be a whole number of at least 1"),
        (lambda: Tagger(learner=ChainPerceptron()).partial_fit(*text(3)), "Perceptron needs all sentences at once"),
        (lambda: MultiLabel(LabelPegasos()).partial_fit(*rows(20)), "Pegasos needs all examples at once"),
        (lambda: ChainCRF(class_weight="balanced").partial_fit(*bursts(3)), "partial_fit is by likelihood"),
    ],
)
def test_what_cannot_go_on_says_so(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_fit_begins_anew_after_batches() -> None:
    x, y = rows(60)
    fresh = MultiLabel(LabelLikelihood()).fit(x, y, progress=False).predict_proba(x)
    model = MultiLabel(LabelLikelihood()).partial_fit(x[:30], 1 - y[:30]).fit(x, y, progress=False)
    np.testing.assert_array_equal(model.predict_proba(x), fresh)
