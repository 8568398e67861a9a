"""The estimator: scikit-learn's contract, classes of all kinds, missing values, files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import loopwise as lw
from loopwise.apps.multilabel import (
    Annealed,
    ByBeliefs,
    Enumeration,
    LabelLikelihood,
    LabelPerceptron,
    LabelSampleRank,
    MultiLabel,
)
from loopwise.learn.files.container import read_container, write_container
from oracles.label_cases import FAST


def test_scikit_learn_takes_it_for_an_estimator() -> None:
    pytest.importorskip("sklearn")
    from sklearn.utils.estimator_checks import check_estimator

    # By exact beliefs, since labels must be those more probable than not: the best set need not have them. A walk
    # depends on the order of examples, and weighted and repeated ones have another: scikit-learn excuses its SGD, too.
    by_order = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
    for model, unfit in (
        (MultiLabel(LabelSampleRank(epochs=4, sweeps=5), decoder=ByBeliefs(lw.Exact())), by_order),
        (MultiLabel(LabelLikelihood(inference=lw.Exact(), iterations=50)), set()),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is no subclass of scikit-learn's
            found = check_estimator(model, on_fail=None)
        failed = {entry["check_name"]: str(entry["exception"]) for entry in found if entry["status"] == "failed"}
        assert set(failed) == unfit, failed
        assert sum(entry["status"] == "passed" for entry in found) > 60


def test_clone_and_search(data: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    model = MultiLabel(FAST, seed=3)
    assert repr(clone(model)) == repr(model) and not hasattr(clone(model), "weights_")
    search = GridSearchCV(MultiLabel(), {"learner": [LabelPerceptron(1), FAST]}, cv=2).fit(*data)
    assert search.best_score_ > 0.8 and isinstance(search.best_estimator_, MultiLabel)
    with pytest.raises(ValueError, match="'colour'"):
        model.set_params(colour=1)
    assert repr(MultiLabel(seed=3)) == "MultiLabel(seed=3)"


def test_marginals(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    model = MultiLabel(LabelLikelihood(1.0, 60, lw.Exact())).fit(x[:150], y[:150])
    shares = model.predict_marginals(x)
    np.testing.assert_array_equal(model.predict_proba(x), shares)
    np.testing.assert_array_equal(model.predict(x), shares > 0.5)
    assert np.abs(shares[:150].mean(axis=0) - y[:150].mean(axis=0)).max() < 0.02
    exact = MultiLabel(decoder=Enumeration())
    exact.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_") or name[0] == "_"})
    np.testing.assert_allclose(exact.predict_marginals(x), shares, atol=1e-9)


def test_classes_of_any_kind(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    plain = MultiLabel(FAST).fit(x, y)
    words = np.where(y == 1, "yes", "no")
    named = MultiLabel(FAST).fit(x, words)
    np.testing.assert_array_equal(named.predict(x), np.where(plain.predict(x) == 1, "yes", "no"))
    assert [list(pair) for pair in named.classes_] == [["no", "yes"]] * 4
    single = MultiLabel(FAST).fit(x, y[:, 0])
    assert single.predict(x).shape == (200,) and single.score(x, y[:, 0]) > 0.85
    np.testing.assert_allclose(single.predict_proba(x).sum(axis=1), 1)
    constant = MultiLabel(FAST).fit(x, np.column_stack([y[:, 0], np.ones(200, int), np.full(200, 7)]))
    assert (constant.predict(x)[:, 1] == 1).all() and (constant.predict(x)[:, 2] == 7).all()
    with pytest.raises(ValueError, match="Column 1 has 3 classes"):
        MultiLabel().fit(x, np.column_stack([y[:, 0], np.arange(200) % 3]))
    with pytest.raises(ValueError, match="not seen in training"):
        plain.score(x, y + 1)


def test_development_data_and_going_on(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    model = MultiLabel(FAST, warm_start=True).fit(x[:100], y[:100], dev=(x[100:], y[100:]))
    assert len(model.history_.dev) == 3 and model.history_.best is not None
    assert 1 - model.score(x[100:], y[100:]) == pytest.approx(min(model.history_.dev))
    before = model.weights_.vector.copy()
    model.fit(x[:100], y[:100])
    again = MultiLabel(FAST).fit(x[:100], y[:100])
    assert not np.array_equal(model.weights_.vector, before)
    assert not np.array_equal(model.weights_.vector, again.weights_.vector)
    assert model.tally_ is not None and model.tally_.steps == 3 * 5 * 4 * 100


@pytest.mark.parametrize("decoder", [None, Enumeration(6), Annealed(50), ByBeliefs(lw.BP(iterations=3), 0.4)])
def test_files(decoder: Any, fitted: MultiLabel, data: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    fitted.decoder = decoder
    fitted.save(tmp_path / "m", {"a": [1]})
    loaded, notes = MultiLabel.load_with_notes(tmp_path / "m")
    assert notes == {"a": [1]} and loaded.label_names_ == fitted.label_names_
    np.testing.assert_array_equal(loaded.predict(data[0]), fitted.predict(data[0]))
    np.testing.assert_array_equal(loaded.predict_marginals(data[0]), fitted.predict_marginals(data[0]))
    loaded.save(tmp_path / "again", {"a": [1]})
    fitted.decoder = None


def test_damaged_files(fitted: MultiLabel, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    tensors, description = read_container(tmp_path / "m")
    damages: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("not a MultiLabel", {}, {"app": "Tagger"}),
        ("does not know", {}, {"decoder": {"class": "os.system", "options": {}}}),
        ("spreads must be at least 1e-200", {"spread": torch.zeros(4)}, {}),
        ("'unary' is of shape .* it must be", {"unary": torch.zeros(3)}, {}),
        ("no|damaged", {}, {"labels": ["a"]}),
    ]
    for words, other_tensors, other in damages:
        description.pop("loopwise", None)
        write_container(tmp_path / "bad", {**tensors, **other_tensors}, {**description, **other})
        with pytest.raises(ValueError, match=words):
            MultiLabel.load(tmp_path / "bad")
    with pytest.raises(ValueError, match="nothing to save"):
        MultiLabel().save(tmp_path / "never")

    class Own(Enumeration):
        pass

    fitted.decoder = Own()
    with pytest.raises(ValueError, match="class Own cannot be saved"):
        fitted.save(tmp_path / "never")
    fitted.decoder = None
    assert not (tmp_path / "never").exists()


def test_bad_input(data: tuple[np.ndarray, np.ndarray], fitted: MultiLabel) -> None:
    x, y = data
    for bad, words in (
        (x[0], "2D array"),
        (x[:0], "minimum of 1"),
        (np.where(x > 2, np.inf, x), "infinity"),
        (x + 1j, "Complex"),
        (sparse.csr_array(np.where(x > 2, np.inf, x)), "infinity"),
    ):
        with pytest.raises(ValueError, match=words):
            MultiLabel().fit(bad, y)
    for bad, words in ((y[:5], "inconsistent"), (y + 0.5, "continuous"), (None, "None"), (y * np.nan, "NaN")):
        with pytest.raises(ValueError, match=words):
            MultiLabel().fit(x, bad)
    with pytest.raises(ValueError, match="1 sample"):
        MultiLabel().fit(x[:1], y[:1])
    with pytest.raises(ValueError, match="not fitted"):
        MultiLabel().predict(x)
    with pytest.raises(ValueError, match="expecting 4 features"):
        fitted.predict(x[:, :2])
    with pytest.raises(ValueError, match="columns of labels"):
        fitted.score(x, y[:, :2])
    with pytest.raises(ValueError, match="one each"):
        fitted.score(x, y[:3])


def test_what_is_of_the_wrong_kind_is_named() -> None:
    x = np.random.default_rng(0).normal(size=(6, 2))
    y = (x > 0).astype(int)
    for model, labels, words in (
        (MultiLabel(learner="x"), y, r"learner must be an object such as LabelSampleRank\(\), not 'x'"),
        (MultiLabel(decoder=2), y, r"decoder must be an object such as Automatic\(\), not 2"),
        (MultiLabel(), [{"a"}] * 6, "labels are sets; give an array"),
        (MultiLabel(), [["a"], ["a", "b"]] * 3, "labels have rows of different lengths"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(x, labels).predict(x)
