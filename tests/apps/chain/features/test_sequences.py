"""Sequences of rows of numbers, in every form they come."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from loopwise.apps import ChainCRF
from oracles.crf_cases import small


def test_sparse_dense_and_other_forms() -> None:
    x, y = small()
    x = [np.round(part) for part in x]  # with zeros
    dense = ChainCRF(standardize=False).fit(x, y)
    thin = ChainCRF(standardize=False).fit([sparse.csr_matrix(part) for part in x], y)
    np.testing.assert_allclose(dense.weights_.vector, thin.weights_.vector, atol=1e-9)
    lists = ChainCRF(standardize=False).fit([part.tolist() for part in x], [row.tolist() for row in y])
    np.testing.assert_array_equal(lists.weights_.vector, dense.weights_.vector)
    block = np.stack([x[0], x[0] + 1])
    assert [row.shape for row in dense.predict(block)] == [(4,), (4,)]
    assert [row.shape for row in dense.predict([x[0], np.zeros((0, 2))])] == [(4,), (0,)]
    words = np.array(["no", "so", "yes"])
    named = ChainCRF(standardize=False).fit(x, [words[row] for row in y])
    for mine, theirs in zip(named.predict(x), dense.predict(x), strict=True):
        np.testing.assert_array_equal(mine, words[theirs])
    holes = [part.copy() for part in x]
    holes[0][1, 0] = np.nan
    assert np.isfinite(ChainCRF().fit(holes, y).weights_.vector).all()
    scaled = ChainCRF().fit([1000 * part + 5 for part in x], y)
    np.testing.assert_allclose(scaled.weights_.vector, ChainCRF().fit(x, y).weights_.vector, atol=1e-8)
    rows = ChainCRF().fit(np.concatenate(x), np.concatenate(y))
    assert rows.predict(np.concatenate(x)).shape == (10,) and not rows.weights_.pair.any()


def test_sequences_without_meaning() -> None:
    x, y = small()
    for sequences, labels, words in (
        ([], [], "no sequences"),
        ([x[0], x[1][:, :1]], y[:2], "sequence 1 has 1 features"),
        ([x[0], x[1][0]], y[:2], r"must be an array \[length, features\]"),
        (x, y[:2], "inconsistent numbers of samples"),
        (x, [y[0][:2], *y[1:]], "sequence 0 has 4 elements"),
        (x, None, "the target y is None"),
        (x, [row + 0.5 for row in y], "continuous"),
        (x, [row * np.nan for row in y], "NaN, None or -1 only: no label is known"),
        (x, [np.full(len(row), np.inf) for row in y], "infinity"),
        ([np.zeros((0, 2))], [[]], "all sequences are empty"),
        ([[], []], [[], []], "all sequences are empty"),
        (np.concatenate(x), y, "1d array"),
    ):
        with pytest.raises(ValueError, match=words):
            ChainCRF(iterations=1).fit(sequences, labels)
    crf = ChainCRF(iterations=1).fit(x, y)
    with pytest.raises(ValueError, match="label 7, which was not seen"):
        crf.log_likelihood(x, [row + 7 for row in y])
    with pytest.raises(ValueError, match="3 features"):
        crf.predict([np.zeros((2, 3))])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("value", "words"), [(np.inf, "infinity"), (-1e300, "numbers beyond 1e+150")])
def test_numbers_beyond_all_bounds_are_named(form: Any, value: float, words: str) -> None:
    """Sequence, element and column, in training and in use; NaN is a missing value."""
    x, y = small()
    place = np.arange(x[2].size).reshape(x[2].shape) == 3
    spoilt = [form(part) for part in (*x[:2], np.where(place, value, x[2]))]
    crf = ChainCRF(iterations=1).fit(x, y)
    for refused in (lambda: ChainCRF().fit(spoilt, y[:3]), lambda: crf.predict(spoilt)):
        with pytest.raises(ValueError, match=f"contains {re.escape(words)}") as caught:
            refused()
        assert f"element 1 of sequence 2, column 1 holds {value:g}; give finite numbers" in str(caught.value)


def test_nothing_is_asked_and_nothing_is_answered() -> None:
    x, y = small()
    crf = ChainCRF(iterations=1).fit(x, y)
    for empty in ([np.zeros((0, 2))] * 2, [[], []]):
        assert [row.tolist() for row in crf.predict(empty)] == [[], []]
        assert [row.shape for row in crf.predict_marginals(empty)] == [(0, 3), (0, 3)]
        assert [answers[0].probability for answers in crf.predict(empty, k=2)] == [1.0, 1.0]
        assert crf.log_likelihood(empty, [[], []]).tolist() == [0.0, 0.0]
        assert [row.tolist() for row in crf.predict(empty, evidence=[[], []])] == [[], []]
    assert crf.predict([]) == [] and crf.sample([]) == []
    assert [len(row) for row in crf.predict([[], x[0]])] == [0, len(x[0])]
    named = ChainCRF(iterations=1).fit([[{"a": 1.0}, {"a": 2.0}]], [["p", "q"]])
    assert [row.tolist() for row in named.predict([[], []])] == [[], []] and named.predict([]) == []
    for refused in (lambda: crf.predict([np.zeros((0, 3))]), lambda: crf.score([[]], [[]])):
        with pytest.raises(ValueError, match=r"3 features|all sequences are empty"):
            refused()
    rows = ChainCRF(iterations=1).fit(x[0], y[0])
    with pytest.raises(ValueError, match="trained on one array of rows"):
        rows.predict([x[0]])
