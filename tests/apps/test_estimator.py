"""What all estimators share: weights of samples, data frames, options of options, what is not fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps import ChainCRF, Coref, Dedupe, GridCRF, MRFClassifier, MultiLabel, Parser, Tagger
from loopwise.apps.chain import ChainLikelihood as ChainLikelihood
from loopwise.apps.chain import ChainSVM
from loopwise.apps.coref import made_documents
from loopwise.apps.estimator import SampleWeights
from loopwise.apps.multilabel import LabelERM, LabelLikelihood

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X @ [[1, 0], [-1, 1], [0, 1]] > 0).astype(int)
COUNTS = RNG.integers(0, 4, 60)


def sequences() -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(1)
    labels = [np.repeat(rng.integers(0, 2, 3), 3) for _ in range(60)]
    return [np.stack([row, 1 - row], 1) + rng.normal(0, 0.9, (9, 2)) for row in labels], labels


def repeated(given: Any, counts: np.ndarray) -> Any:
    places = np.repeat(np.arange(len(counts)), counts)
    return [given[place] for place in places] if isinstance(given, list) else given[places]


@pytest.mark.parametrize(
    "model",
    [
        MRFClassifier(iterations=20),
        MRFClassifier(loss=lw.loss.MSE(), iterations=20),
        MRFClassifier(loss=lw.loss.F1(), iterations=10),
        MultiLabel(),
        MultiLabel(LabelLikelihood()),
        MultiLabel(LabelERM(iterations=10)),
        ChainCRF(),
        ChainCRF(loss=lw.loss.MSE()),
        ChainCRF(standardize=False, class_weight={1: 2.0}),
    ],
)
def test_a_weight_is_a_number_of_copies(model: Any) -> None:
    x, y = sequences() if isinstance(model, ChainCRF) else (X, Y)
    counted = model.fit(x, y, sample_weight=COUNTS, progress=False).predict_proba(x)
    copied = model.fit(repeated(x, COUNTS), repeated(y, COUNTS), progress=False).predict_proba(x)
    for one, other in zip(counted, copied, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)


@pytest.mark.parametrize("model", [MRFClassifier(iterations=30), MultiLabel(LabelLikelihood()), ChainCRF()])
def test_halved_weights_are_a_doubled_penalty(model: Any) -> None:
    x, y = sequences() if isinstance(model, ChainCRF) else (X, Y)
    if isinstance(model, MRFClassifier):
        x = np.clip(np.round(x), -1, 1)  # values as they are: intervals would be cut by whole rows
    halved = model.fit(x, y, sample_weight=COUNTS / 2, progress=False)
    if isinstance(model, MultiLabel):
        twice = MultiLabel(LabelLikelihood(l2=2 * LabelLikelihood().l2))
    else:
        twice = type(model)(l2=2.0, iterations=model.iterations)
    twice.fit(repeated(x, COUNTS), repeated(y, COUNTS), progress=False)
    for one, other in zip(halved.predict_proba(x), twice.predict_proba(x), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_weights_of_sentences() -> None:
    words = [["Ann", "saw", "Bob"], ["the", "dog", "saw", "Ann"], ["Bob", "ran"], ["Ann", "ran"]]
    tags = [["B-PER", "O", "B-PER"], ["O", "O", "O", "B-PER"], ["B-PER", "O"], ["B-PER", "O"]]
    counts = np.array([2, 0, 3, 1])
    for learner in (ChainLikelihood(tolerance=1e-13), ChainSVM(epochs=2)):
        counted = Tagger("w[0] bias", learner=learner).fit(words, tags, sample_weight=counts)
        copied = Tagger("w[0] bias", learner=learner).fit(repeated(words, counts), repeated(tags, counts))
        for one, other in zip(counted.predict_marginals(words), copied.predict_marginals(words), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-7)
    with pytest.raises(ValueError, match="SVM takes whole numbers as sample_weight"):
        Tagger(learner=ChainSVM()).fit(words, tags, sample_weight=[0.5, 1, 1, 1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0, 2.0], "one for each of 3 samples"),
        ([1.0, -1.0, 0.0], "negative"),
        ([1.0, np.nan, 0.0], "NaN"),
        ([0, 0, 0], "every sample weight is zero"),
    ],
)
def test_bad_weights_are_one_sentence(given: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SampleWeights.of(given, 3)


def test_weights_that_are_not_given_or_all_alike() -> None:
    assert SampleWeights.of(None, 3) is None
    alike = SampleWeights.of(2.0, 3)
    assert alike is not None and alike.whole and alike.repeated("x").tolist() == [0, 0, 1, 1, 2, 2]


def test_options_of_what_is_left_out() -> None:
    assert MultiLabel().set_params(learner__epochs=3).learner.epochs == 3
    assert Tagger().set_params(learner__l2=0.3, decoder__valid=False).learner.l2 == 0.3
    changed = MRFClassifier().set_params(inference__iterations=3)
    assert changed.inference == lw.BP(iterations=3, tolerance=0)
    with pytest.raises(ValueError, match="structure is None"):
        MRFClassifier().set_params(structure__rows=2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Tagger().predict([["a"]]),
        lambda: Coref().predict(made_documents(1, seed=0)),
        lambda: Parser().parse([]),
        lambda: ChainCRF().predict(X),
        lambda: MultiLabel().predict(X),
        lambda: MRFClassifier().predict(X),
        lambda: GridCRF().predict(np.zeros((1, 3, 3))),
        lambda: Dedupe().predict({"name": ["a"]}),
        lambda: Parser().save("nowhere"),
    ],
)
def test_what_is_not_fitted_says_so(call: Any) -> None:
    exceptions = pytest.importorskip("sklearn.exceptions")
    with pytest.raises(exceptions.NotFittedError, match=r"not fitted|not trained"):
        call()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_data_frames_in_and_out(library: str) -> None:
    frames = pytest.importorskip(library)
    columns = {
        "colour": ["red", "blue", None, "red"] * 10,
        "size": [1.0, None, 3.0, 4.5] * 10,
        "old": [True, False] * 20,
    }
    answer = {"kind": ["a", "b", "a", "b"] * 10, "grade": [0, 1, 1, 0] * 10}
    make = frames.table if library == "pyarrow" else frames.DataFrame
    x, y = make(columns), make(answer)
    model = MRFClassifier(iterations=5).fit(x, y, progress=False)
    assert model.feature_names_in_.tolist() == ["colour", "size", "old"]
    plain = [list(row) for row in zip(*columns.values(), strict=True)]
    labels = np.array([list(row) for row in zip(*answer.values(), strict=True)], dtype=object)
    same = MRFClassifier(iterations=5).fit(plain, labels, progress=False)
    for one, other in zip(model.predict_proba(x), same.predict_proba(plain), strict=True):
        np.testing.assert_array_equal(one, other)
    said = model.predict_frame(x)
    assert type(said) is type(x) and list(getattr(said, "column_names", said.columns)) == ["kind", "grade"]
    weighted = MRFClassifier(iterations=5).fit(x, y, sample_weight=[1, 2] * 20, progress=False)
    assert weighted.predict_frame(x, "polars").shape == (40, 2)
    numbers = make({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    learnt = MultiLabel(LabelLikelihood()).fit(numbers, make({"p": Y[:, 0], "q": Y[:, 1]}), progress=False)
    assert learnt.label_names_ == ("p", "q") and learnt.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        learnt.predict(numbers), MultiLabel(LabelLikelihood()).fit(X, Y, progress=False).predict(X)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        learnt.predict(make({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2]}))
    if library == "pandas":
        shuffled = x.iloc[::-1]
        assert model.predict_frame(shuffled).index.tolist() == shuffled.index.tolist()


def test_iterations_and_searches_without_a_learner() -> None:
    model_selection = pytest.importorskip("sklearn.model_selection")
    base = pytest.importorskip("sklearn.base")
    found = model_selection.GridSearchCV(MultiLabel(), {"learner__epochs": [1, 3]}, cv=2, error_score="raise").fit(X, Y)
    assert found.best_estimator_.n_iter_ == found.best_params_["learner__epochs"]
    assert not hasattr(MultiLabel(), "n_iter_")
    search = model_selection.GridSearchCV(Coref(steps=200, decode_steps=200), {"rounds": [1, 2]}, cv=2)
    assert search.fit(made_documents(4, seed=0)).best_score_ > 0.3
    parser = Parser(["sibling"], lw.BP(iterations=2), projective=False)
    twin = base.clone(parser)
    assert twin.get_params()["inference__iterations"] == 2 and twin.structure == parser.structure
    twin.set_params(projective=True, inference__iterations=3, factors=())
    assert twin.structure.projective and twin.inference.iterations == 3 and twin.structure.factors == ()
    with pytest.raises(ValueError, match="no parameter 'colour'"):
        twin.set_params(colour=1)
