"""Files of libDAI."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from loopwise.formats import (
    TableModel,
    read_fg,
    read_model,
    write_fg,
    write_model,
)
from oracles.model_files import STATES, cell, models


@pytest.mark.parametrize("suffix", ["", ".gz"])
@settings(max_examples=60, deadline=None)
@given(model=models(isolated=False, labels=True))
def test_fg_gives_back_the_model(model: TableModel, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.fg{suffix}"
        write_model(path, model)
        again = read_model(path)
    assert again == model
    assert all(table.flags.c_contiguous and table.dtype == np.float64 for table in again.tables)


@settings(max_examples=40, deadline=None)
@given(model=models())
def test_fg_gives_isolated_variables_a_factor_of_ones(model: TableModel) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.fg"
        write_fg(path, model)
        again = read_fg(path)
    alone = [k for k in range(model.variables) if not any(k in scope for scope in model.scopes)]
    assert np.array_equal(again.cardinalities, model.cardinalities)
    assert again.scopes == (*model.scopes, *((variable,) for variable in alone))
    for mine, theirs in zip(model.tables, again.tables, strict=False):
        assert np.array_equal(mine, theirs)
    for variable, table in zip(alone, again.tables[model.factors :], strict=True):
        assert table.tolist() == [1.0] * int(model.cardinalities[variable])


def test_fg_counts_with_the_first_variable_fastest(tmp_path: Path) -> None:
    path = tmp_path / "m.fg"
    lines = ["# one factor", "1", "", "3", "20 7 300 # labels", "2 3 4", "24"]
    lines += [
        f"{x + 2 * y + 6 * z} {cell((x, y, z))}" for x, y, z in reversed(STATES)
    ]  # the order of lines means nothing
    path.write_text("\r\n".join(lines))
    model = read_fg(path)
    assert model.labels == (7, 20, 300)
    assert model.cardinalities.tolist() == [3, 2, 4]
    assert model.scopes == ((1, 0, 2),)
    assert all(model.tables[0][state] == cell(state) for state in STATES)


def test_fg_entries_not_given_are_zero(tmp_path: Path) -> None:
    path = tmp_path / "m.fg"
    path.write_text("2\n\n2\n0 1\n2 2\n1\n1 0.5\n\n0\n\n\n1\n0 3\n")
    model = read_fg(path)
    assert model.tables[0].tolist() == [[0, 0], [0.5, 0]]
    assert model.tables[1].shape == () and float(model.tables[1]) == 3
