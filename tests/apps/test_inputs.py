"""Inputs of estimators."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from loopwise.apps.inputs import Scaling, as_inputs


def test_rare_features_are_not_scaled_up() -> None:
    """Only dense columns that vary otherwise than between 0 and 1 are; in sparse matrices too."""
    rng = np.random.default_rng(0)
    rare = (rng.random(200) < 0.02) * 3.0
    x = np.column_stack([rng.normal(5, 100, 200), rng.random(200) < 0.4, rare])
    for given in (x, sparse.csr_array(x)):
        scaling = Scaling.of(given, True)
        assert scaling.scaled.tolist() == [True, False, False]
        assert str(scaling) == "1 of 3 features scaled to variance 1"
        assert not Scaling.of(given, False).scaled.any()
        seen = scaling(given, True)
        dense = seen.toarray() if sparse.issparse(seen) else seen
        assert np.ptp(dense[:, 1]) == 1 and np.ptp(dense[:, 2]) == 3 and dense[:, 0].std() == pytest.approx(1, rel=0.1)


def test_infinite_cells_are_named() -> None:
    """By row and column, by the name of a column where there is one, dense and sparse."""
    import pandas

    cells = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, -np.inf]])
    frame = pandas.DataFrame(cells, columns=["a", "b", "c"])
    for given, column in ((cells, "2"), (sparse.csr_array(cells), "2"), (frame, "'c'")):
        with pytest.raises(ValueError, match=f"contains infinity: row 1, column {column} holds -inf; give finite"):
            as_inputs(given)
    assert np.isnan(as_inputs(np.where(np.isinf(cells), np.nan, cells))).sum() == 1
