"""Inputs, missing and scaled."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from loopwise.apps.multilabel import (
    MultiLabel,
)
from oracles.label_cases import FAST


def test_missing_and_scaled_inputs(data: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = data
    scaled = MultiLabel(FAST).fit(1000 * x + 5, y)
    np.testing.assert_array_equal(scaled.predict(1000 * x + 5), MultiLabel(FAST).fit(x, y).predict(x))
    holes = x.copy()
    holes[::7, 1] = np.nan
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    for standardize in (True, False):
        one = MultiLabel(FAST, standardize=standardize).fit(holes, y)
        assert np.isfinite(one.predict_marginals(holes)).all()
        np.testing.assert_array_equal(one.predict(holes), one.predict(filled))
    scant = sparse.csr_array(np.where(np.abs(x) < 0.5, 0, x))
    model = MultiLabel(FAST).fit(scant, y)
    np.testing.assert_array_equal(model.predict(scant), model.predict(sparse.coo_array(scant)))
    assert model.score(scant, y) > 0.8
