"""Estimators as scikit-learn's tools take them: its own checks, clones, searches, pipelines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.apps import ChainCRF, GridCRF, MRFClassifier, MultiLabel
from loopwise.apps.chain import ChainSVM
from loopwise.apps.multilabel import LabelERM, LabelPerceptron
from loopwise.apps.table import Grid, ToOutputs

pytest.importorskip("sklearn", "1.6")

from sklearn import base, model_selection, pipeline, preprocessing
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

NO_SUBCLASS = "does not inherit from `sklearn.base.BaseEstimator`"


class RowsCRF(ChainCRF):
    """A chain model of arrays, whose rows are sequences of one element, is a classifier; one of lists is not."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags


# Checks that do not apply, and why (what check_estimator calls expected_failed_checks): none is needed.
UNFIT: dict[str, str] = {}


def checked(model: Any) -> int:
    """Runs scikit-learn's checks; how many passed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{NO_SUBCLASS}")  # scikit-learn is not always installed
        warnings.filterwarnings("ignore", category=estimator_checks.SkipTestWarning)  # checks that need pandas
        found = estimator_checks.check_estimator(model, expected_failed_checks=UNFIT, on_fail=None)
    failed = {entry["check_name"]: str(entry["exception"]) for entry in found if entry["status"] == "failed"}
    assert not failed, failed
    return sum(entry["status"] == "passed" for entry in found)


def test_tables_pass_the_checks() -> None:
    assert checked(MRFClassifier(inference=lw.Exact(), iterations=30)) > 45


def test_chains_pass_the_checks() -> None:
    assert checked(ChainCRF()) > 30
    assert checked(RowsCRF()) > 45


def test_grids_pass_the_checks_that_images_can_take() -> None:
    """scikit-learn checks estimators of ``[rows, columns]`` only; what it asks of every estimator is asked here."""
    model = GridCRF(iterations=2, inference=lw.BP(iterations=5, tolerance=0))
    with pytest.warns(estimator_checks.SkipTestWarning, match="Can't test estimator GridCRF"):
        list(estimator_checks._yield_all_checks(model, legacy=True))
    for check in (
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_valid_tag_types,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_mixin_order,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
    ):
        check("GridCRF", model)
    clean, noisy = squares(6)
    with pytest.raises(NotFittedError):
        model.predict(noisy)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    before = repr(model)
    assert model.fit(noisy, clean) is model and repr(model) == before  # fit returns itself, options stay
    check_is_fitted(model)
    first, second = model.predict_proba(noisy), base.clone(model).fit(noisy, clean).predict_proba(noisy)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(model.predict_proba(noisy[2:4]), first[2:4])
    np.testing.assert_array_equal(model.predict_proba(noisy[::-1]), first[::-1])


def squares(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    clean = np.zeros((count, 8, 8), dtype=int)
    for image in clean:
        row, column = rng.integers(0, 6, 2)
        image[row : row + 3, column : column + 3] = 1
    return clean, clean + rng.normal(0, 0.7, clean.shape)


def test_class_weights_of_pixels() -> None:
    clean, noisy = squares(8)
    plain = GridCRF(iterations=20, inference=lw.BP(iterations=5, tolerance=0)).fit(noisy, clean)
    heavy = base.clone(plain).set_params(class_weight={1: 5.0}).fit(noisy, clean)
    assert heavy.predict(noisy).mean() > plain.predict(noisy).mean() + 0.02
    shares = heavy.predict_proba(noisy)[..., 1]
    weights = np.where(clean == 1, 5.0, 1.0)
    hand = -(weights * np.log(np.where(clean == 1, shares, 1 - shares))).sum() / weights.sum()
    assert heavy.history_[-1].loss == pytest.approx(hand, rel=1e-6)
    for loss in (lw.loss.SurrogateLikelihood(), lw.loss.F1()):
        with pytest.raises(ValueError, match="class_weight means nothing"):
            base.clone(heavy).set_params(loss=loss).fit(noisy, clean)
    tuned = base.clone(plain).set_params(loss=lw.loss.FBeta(beta=2.0, reduction=lw.loss.Pooled())).fit(noisy, clean)
    assert tuned.predict(noisy).mean() > plain.predict(noisy).mean()


def test_options_of_options() -> None:
    model = MRFClassifier(loss=lw.loss.FBeta(beta=2.0), inference=lw.BP(iterations=5))
    options = model.get_params()
    assert options["loss__beta"] == 2.0 and options["inference__iterations"] == 5
    assert "loss__beta" not in model.get_params(deep=False) and "loss__beta" not in repr(model)
    before = model.inference
    model.set_params(inference__iterations=3, loss__beta=0.5, l2=2.0)
    assert (model.inference.iterations, model.loss.beta, model.l2, before.iterations) == (3, 0.5, 2.0, 5)
    model.set_params(inference=lw.TRW(), inference__iterations=7)
    assert isinstance(model.inference, lw.TRW) and model.inference.iterations == 7
    nested = MultiLabel(LabelERM()).set_params(learner__inference__iterations=2, learner__begin__l2=3.0)
    assert nested.learner.inference.iterations == 2 and nested.learner.begin.l2 == 3.0
    for wrong, words in (
        ({"loss__gamma": 1}, "FBeta has no parameter 'gamma'"),
        ({"structure__rows": 1}, "structure is None"),
        ({"colour": 1}, "no parameter 'colour'"),
    ):
        with pytest.raises(ValueError, match=words):
            model.set_params(**wrong)
    with pytest.raises(ValueError, match="iterations must be"):
        model.set_params(inference__iterations=-1)


@pytest.mark.parametrize(
    "model",
    [
        MRFClassifier(ToOutputs(), loss=lw.loss.F1(), class_weight={0: 2.0}, inference=lw.BP(iterations=3)),
        MRFClassifier(Grid(2, 3), decoder=lw.decode.SoftArgmax(0.3), hidden=(2,)),
        ChainCRF(learner=ChainSVM(), class_weight="balanced", l2=0.3),
        MultiLabel(LabelPerceptron(2), seed=4),
        GridCRF(states=3, class_weight="balanced", prior=lw.prior.L2(0.1)),
    ],
)
def test_clones(model: Any) -> None:
    twin = base.clone(model)
    assert type(twin) is type(model) and twin is not model
    shallow = model.get_params(deep=False)
    assert {name: repr(value) for name, value in twin.get_params(deep=False).items()} == {
        name: repr(value) for name, value in shallow.items()
    }


def test_search_over_a_table() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (120, 4)).astype(float)
    y = np.where(rng.random(120) < 0.15, 1 - x[:, 0], x[:, 0]).astype(int)
    x[rng.random(x.shape) < 0.1] = np.nan
    grid = {"l2": [0.1, 1e4], "structure": [ToOutputs()]}
    search = model_selection.GridSearchCV(
        MRFClassifier(inference=lw.Exact(), iterations=20), grid, cv=3, scoring="neg_log_loss", error_score="raise"
    )
    search.fit(x, y)
    assert search.best_params_["l2"] == 0.1 and search.best_score_ > -0.65
    deep = model_selection.GridSearchCV(
        MRFClassifier(ToOutputs(), loss=lw.loss.FBeta(), inference=lw.BP(iterations=2, tolerance=0), iterations=10),
        {"loss__beta": [0.5, 2.0], "inference__iterations": [1, 2]},
        cv=2,
        error_score="raise",
    ).fit(x, y)
    assert len(deep.cv_results_["mean_test_score"]) == 4
    partial = np.stack([y, x[:, 2]], axis=1)  # answers that are missing need folds that do not look at them
    scores = model_selection.cross_val_score(
        MRFClassifier(inference=lw.Exact(), iterations=10), x, partial, cv=model_selection.KFold(2), error_score="raise"
    )
    assert scores.shape == (2,) and (scores > 0.3).all()
    line = pipeline.make_pipeline(
        preprocessing.KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        MRFClassifier(inference=lw.Exact(), iterations=10),
    )
    continuous = rng.normal(size=(120, 3))
    line.fit(continuous, continuous[:, 0] > 0)
    assert line.score(continuous, continuous[:, 0] > 0) > 0.8 and "MRFClassifier" in line._repr_html_()
    proba = model_selection.cross_val_predict(
        MRFClassifier(inference=lw.Exact(), iterations=10), x, y, cv=3, method="predict_proba"
    )
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_search_over_sequences() -> None:
    rng = np.random.default_rng(1)
    y = [np.repeat(rng.integers(0, 2, 3), 4) for _ in range(24)]
    x = [np.stack([row, 1 - row], 1) + rng.normal(0, 1, (12, 2)) for row in y]
    search = model_selection.GridSearchCV(ChainCRF(), {"l2": [1.0, 1e5]}, cv=3, error_score="raise").fit(x, y)
    assert search.best_params_ == {"l2": 1.0} and search.score(x, y) > 0.75
    line = pipeline.make_pipeline(
        preprocessing.FunctionTransformer(lambda sequences: [part[:, :1] for part in sequences]), ChainCRF()
    ).fit(x, y)
    assert line.named_steps["chaincrf"].n_features_in_ == 1 and line.score(x, y) > 0.7
    rows, labels = np.concatenate(x), np.concatenate(y)
    scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), RowsCRF(standardize=False)).fit(rows, labels)
    scores = model_selection.cross_val_score(scaled, rows, labels, scoring="f1", cv=3, error_score="raise")
    assert scores.mean() > 0.6


def test_search_over_label_sets() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(90, 3))
    y = (x @ [[1, 0], [-1, 1], [0, 1]] > 0).astype(int)
    found = model_selection.GridSearchCV(
        MultiLabel(LabelPerceptron(1)), {"learner__epochs": [1, 4]}, cv=2, error_score="raise"
    ).fit(x, y)
    assert found.best_params_["learner__epochs"] in (1, 4) and found.best_score_ > 0.8


@pytest.mark.parametrize("kind", [ChainCRF, MRFClassifier, MultiLabel])
def test_tensors_are_taken_and_iterators_are_not(kind: Any) -> None:
    x = torch.tensor(np.random.default_rng(0).normal(size=(20, 3)), requires_grad=True)
    y = (x.detach()[:, 0] > 0).long()
    with pytest.raises(ValueError, match="an iterator is empty after that: give a list or an array"):
        kind().fit(iter(x.tolist()), y, progress=False)
    options = {} if kind is MultiLabel else {"iterations": 2}
    assert len(kind(**options).fit(x, y, progress=False).predict(x)) == 20
