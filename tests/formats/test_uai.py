"""UAI files: order of cells, line breaks."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from loopwise.formats import (
    ModelKind,
    TableModel,
    read_model,
    read_uai,
    write_model,
    write_uai,
)
from oracles.model_files import STATES, cell, models


@pytest.mark.parametrize("suffix", ["", ".gz"])
@settings(max_examples=60, deadline=None)
@given(model=models())
def test_uai_gives_back_the_model(model: TableModel, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.uai{suffix}"
        write_model(path, model)
        again = read_model(path)
    assert again == model
    assert all(table.flags.c_contiguous and table.dtype == np.float64 for table in again.tables)


def test_uai_counts_with_the_last_variable_fastest(tmp_path: Path) -> None:
    path = tmp_path / "m.uai"
    # Variables 0, 1, 2 have 4, 2, 3 values; the scope lists them as 1, 2, 0.
    path.write_text("BAYES\n3\n4 2 3\n1\n3 1 2 0\n\n24\n" + "\n".join(str(cell(state)) for state in STATES))
    model = read_uai(path)
    assert (model.kind, model.scopes, model.labels) == (ModelKind.BAYES, ((1, 2, 0),), (0, 1, 2))
    assert all(model.tables[0][state] == cell(state) for state in STATES)


def test_line_breaks_and_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "m.uai"
    path.write_bytes(b"\xef\xbb\xbfmarkov 1 2\t1\r1 0\r\n\x0b2 .25\n\n7.5E-1")
    model = read_uai(path)
    assert model.tables[0].tolist() == [0.25, 0.75]


def test_writing_the_same_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    model = TableModel.of([2], [([0], [0.25, 0.75])])
    write_uai(tmp_path / "a.uai.gz", model)
    write_uai(tmp_path / "b.uai.gz", model)
    assert (tmp_path / "a.uai.gz").read_bytes() == (tmp_path / "b.uai.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.uai.gz").read_bytes()).startswith(b"MARKOV\n")
