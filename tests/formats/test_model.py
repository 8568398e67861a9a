"""Models written and read back: equal to the last bit, and laid out as the formats say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from loopwise.formats import (
    TableModel,
    read_model,
    write_model,
)


@pytest.mark.parametrize("name", ["model.txt", "model", "model.gz", "-", "uai"])
def test_unknown_extension_is_a_clear_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"should end in \.uai, \.fg or \.bif"):
        read_model(name)
    with pytest.raises(ValueError, match=r"should end in \.uai, \.fg or \.bif"):
        write_model(name, TableModel.of([], []))


def test_log_factors_take_zero_to_minus_infinity_silently(recwarn: pytest.WarningsRecorder) -> None:
    model = TableModel.of([2, 2], [([1, 0], [[0, 1], [2, 3]]), ([], 0.0)])
    (scope, table), (empty, constant) = model.log_factors()
    assert (scope, empty) == ((1, 0), ())
    assert table.tolist() == [[-math.inf, 0.0], [math.log(2), math.log(3)]]
    assert constant.shape == () and constant == -math.inf
    assert not recwarn.list
    assert model.tables[0][0, 0] == 0  # the model keeps its potentials


@pytest.mark.parametrize(
    ("cardinalities", "factors", "message"),
    [
        ([2, 0], [], "variable 1 has cardinality 0"),
        ([2], [([1], [1, 1])], "names variable 1"),
        ([2], [([-1], [1, 1])], "names variable -1"),
        ([2], [([0, 0], np.ones((2, 2)))], "repeats a variable"),
        ([2], [([0], [1, 1, 1])], r"shape \(3,\)"),
        ([2], [([0], [1, -1])], r"holds -1(\.0)? at \[1\]"),
        ([2], [([0], [math.nan, 1])], r"holds nan at \[0\]"),
        ([2], [([0], [1, math.inf])], r"holds inf at \[1\]"),
    ],
)
def test_models_that_no_file_could_hold(cardinalities: list[int], factors: list, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        TableModel.of(cardinalities, factors)
    unchecked = TableModel(
        np.array(cardinalities),
        tuple(tuple(scope) for scope, _ in factors),
        [np.array(table) for _, table in factors],
    )
    for name in ("m.uai", "m.fg"):
        with pytest.raises(ValueError, match=message):
            write_model(tmp_path / name, unchecked)
    assert not list(tmp_path.iterdir())


def test_labels_must_increase() -> None:
    for labels in ([3, 3], [4, 1], [1], [-1, 2]):
        with pytest.raises(ValueError, match="labels must be 2 increasing numbers"):
            TableModel.of([2, 2], [], labels=labels)
