"""Rules of missing cells as users give them, and what is said of cells that training never missed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from loopwise.apps.table import Patterns, Rates
from loopwise.apps.table.missingness import missingness_of, warn_of_unmet
from loopwise.notices import DataWarning


def test_rates_of_some_columns_by_name() -> None:
    assert missingness_of({"age": 0.5, "ill": np.float32(0.25)}, ["sex", "age", "ill"]) == Rates((0.0, 0.5, 0.25))
    with pytest.raises(ValueError, match="no input column is called 'height'; the input columns are 'sex', 'age'"):
        missingness_of({"height": 0.5}, ["sex", "age"])


@pytest.mark.parametrize("given", ["much", True, [0.1, "x"], {"age": None}])
def test_what_is_no_rate_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="missing must be None, a rate"):
        missingness_of(given, ["age"])


def test_patterns_of_a_table_as_users_have_it() -> None:
    generator = np.random.default_rng(0)
    drawn = Patterns.like([["a", None, np.nan], ["", 3.0, np.nan]]).draw(50, 3, generator)
    assert drawn[:, 2].all() and (drawn[:, 0] != drawn[:, 1]).all() and drawn[:, 0].any() and drawn[:, 1].any()
    with pytest.raises(ValueError, match="patterns of 3 columns were given for 4 input columns"):
        Patterns.like([["a", None, 1.0]]).draw(5, 4, generator)
    for bad in (np.zeros((0, 2), dtype=bool), np.zeros(3, dtype=bool), np.zeros((2, 2))):
        with pytest.raises(ValueError, match=r"patterns are truth values \[rows, columns\].*Patterns.like"):
            Patterns(bad)


def test_patterns_of_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"kind": ["p", None], "count": pandas.array([None, 3], dtype="Int64")})
    wanted = [[False, True], [True, False]]
    assert Patterns.like(frame).masks.tolist() == wanted and Patterns(frame.isna()).masks.tolist() == wanted


def test_only_cells_that_training_never_missed_are_told_of() -> None:
    values = np.array([[0, -1, -1], [1, 0, 0]])
    with pytest.warns(DataWarning, match="rows miss 'age', which training never missed"):
        warn_of_unmet(("sex", "age", "ill"), values, np.array([False, False, True]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_unmet(("sex", "age", "ill"), values, np.array([False, True, True]))
