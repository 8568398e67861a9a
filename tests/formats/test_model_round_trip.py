"""Models written and read back: equal to the last bit, and laid out as the formats say."""

from __future__ import annotations

import gzip
import itertools
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwise.formats import (
    ModelKind,
    TableModel,
    read_fg,
    read_model,
    read_uai,
    write_fg,
    write_model,
    write_uai,
)

POTENTIALS = st.one_of(
    st.just(0.0),
    st.floats(min_value=0, max_value=1e300, allow_nan=False),
    st.sampled_from([5e-324, 0.1, 1 / 3, 1.7976931348623157e308]),
)


@st.composite
def models(draw: st.DrawFn, *, isolated: bool = True, labels: bool = False) -> TableModel:
    sizes = draw(st.lists(st.integers(1, 4), max_size=6))
    scopes = draw(
        st.lists(
            st.lists(st.sampled_from(range(len(sizes))), max_size=4, unique=True) if sizes else st.just([]),
            max_size=5,
        )
    )
    if not isolated:
        scopes += [[variable] for variable in range(len(sizes)) if not any(variable in scope for scope in scopes)]
    factors = []
    for scope in scopes:
        shape = [sizes[variable] for variable in scope]
        count = math.prod(shape)
        entries = draw(st.lists(POTENTIALS, min_size=count, max_size=count))
        factors.append((scope, np.array(entries).reshape(shape)))
    names = draw(st.sets(st.integers(0, 10**6), min_size=len(sizes), max_size=len(sizes))) if labels else ()
    kind = ModelKind.MARKOV if labels else draw(st.sampled_from(ModelKind))
    return TableModel.of(sizes, factors, kind=kind, labels=sorted(names))


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


def cell(state: tuple[int, ...]) -> float:
    """A different number for every joint state."""
    return 1 + sum(value * 10.0**axis for axis, value in enumerate(state))


SHAPE = (2, 3, 4)
STATES = list(itertools.product(*(range(size) for size in SHAPE)))  # last variable fastest


def test_uai_counts_with_the_last_variable_fastest(tmp_path: Path) -> None:
    path = tmp_path / "m.uai"
    # Variables 0, 1, 2 have 4, 2, 3 values; the scope lists them as 1, 2, 0.
    path.write_text("BAYES\n3\n4 2 3\n1\n3 1 2 0\n\n24\n" + "\n".join(str(cell(state)) for state in STATES))
    model = read_uai(path)
    assert (model.kind, model.scopes, model.labels) == (ModelKind.BAYES, ((1, 2, 0),), (0, 1, 2))
    assert all(model.tables[0][state] == cell(state) for state in STATES)


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
