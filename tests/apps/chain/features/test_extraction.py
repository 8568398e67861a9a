"""Templates and features against a plain reading of each token, and the linear map against the matrix it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.chain.features.extraction import design_of, extract
from loopwise.apps.chain.features.index import Hashed, Indexed
from loopwise.apps.chain.features.templates import parse_templates
from loopwise.apps.chain.features.text import Text
from oracles.chain_features import SPEC, dense, features_by_hand

SENTENCES = [["The", "EU-27", "met", "."], [], ["rome"], ["a", "b", "The", "McX's"]]


@pytest.mark.parametrize("hashing", [None, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_linear_map(hashing: int | None, threads: int) -> None:
    keys = extract(parse_templates(SPEC), Text.of(SENTENCES))
    index = Indexed.of(keys.key, keys.counts) if hashing is None else Hashed(hashing)
    design = design_of(keys, index)
    matrix = dense(design)
    expected = features_by_hand(SENTENCES, parse_templates(SPEC))
    assert matrix.sum(axis=1).tolist() == [len(row) for row in expected]
    if hashing is None:
        totals = matrix.sum(axis=0)
        assert (np.diff(totals) <= 0).all() and totals.min() >= 1  # frequent ones first, none without use
    rng = np.random.default_rng(0)
    weights, adjoint = rng.normal(size=(design.features, 3)), rng.normal(size=(len(matrix), 3))
    np.testing.assert_allclose(design.scores(weights, threads), matrix @ weights, atol=1e-12)
    np.testing.assert_allclose(design.transposed_scores(adjoint, threads), matrix.T @ adjoint, atol=1e-12)
    flat = design.flat
    for token in range(len(matrix)):
        own = np.bincount(flat.index[flat.start[token] : flat.start[token + 1]], minlength=design.features)
        assert np.array_equal(own, matrix[token])
