"""CSV tables of variables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats.errors import FormatError
from loopwise.formats.table import Vocabulary, read_cells, read_table, write_table
from loopwise.notices import DataWarning


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_variables_and_empty_cells_are_missing(tmp_path: Path) -> None:
    path = file_of(tmp_path, 'colour,size,"a, b"\nred,10,x\n, 9 ,\n\nblue,,y\nred,10,x\n')
    table = read_table(path)
    assert table.vocabulary.names == ("colour", "size", "a, b")
    assert table.vocabulary.labels == (("blue", "red"), ("9", "10"), ("x", "y"))  # numbers in their own order
    assert table.values.tolist() == [[1, 1, 0], [-1, 0, -1], [0, -1, 1], [1, 1, 0]]
    assert table.values.dtype == np.int64


def test_binary_columns_have_both_values_even_if_one_never_occurs(tmp_path: Path) -> None:
    table = read_table(file_of(tmp_path, "a,b,c\n1,0,2\n1,1,2\n"))
    assert table.vocabulary.labels == (("0", "1"), ("0", "1"), ("2",))
    assert table.values.tolist() == [[1, 0, 0], [1, 1, 0]]


def test_cardinalities_of_a_structure(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a,b,h\n2,yes,\n1,no,\n")
    table = read_table(path, cardinalities=[3, 2, 4], may_be_empty=["h"])
    assert table.vocabulary.labels == (("0", "1", "2"), ("no", "yes"), ("0", "1", "2", "3"))
    assert table.values.tolist() == [[2, 1, -1], [1, 0, -1]]
    with pytest.raises(FormatError, match=r"'b' has 2 different labels \('no', 'yes'\).* has 1 values"):
        read_table(path, cardinalities=[3, 1, 4], may_be_empty=["h"])
    with pytest.raises(FormatError, match="3 columns, the structure has 2 variables"):
        read_table(path, cardinalities=[3, 2])


def test_with_a_vocabulary_columns_go_by_name(tmp_path: Path) -> None:
    known = Vocabulary(("a", "b", "y"), (("0", "1"), ("low", "high"), ("no", "yes")))
    table = read_table(file_of(tmp_path, "b,a\nhigh,0\n,1\n"), vocabulary=known)
    assert table.vocabulary is known
    assert table.values.tolist() == [[0, 1, -1], [1, -1, -1]]  # y has no column: missing throughout


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,b\n0,low\n0,hihg\n", 3, "variable 'b' has no value 'hihg'; did you mean 'high'"),
        ("a,b\n0,low\n\n7,low\n", 4, "variable 'a' has no value '7'; the values are '0', '1'"),
        ("a,bb\n0,low\n", 1, "there is no variable 'bb'"),
    ],
)
def test_labels_and_columns_that_the_vocabulary_does_not_have(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    known = Vocabulary(("a", "b"), (("0", "1"), ("low", "high")))
    with pytest.raises(FormatError, match=message) as caught:
        read_table(file_of(tmp_path, text), vocabulary=known)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "the file is empty"),
        ("a,b\n", None, "no rows"),
        ("a,,c\n0,1,1\n", 1, "column 2 has no name"),
        ("a,b,a\n0,1,1\n", 1, "two columns are called 'a'"),
        ("a,b\n0,1\n1\n", 3, "this row has 1 cells, the first line names 2"),
        ("a,b\n0,1\n1,0,1\n", 3, "this row has 3 cells"),
        ('a,b\n"x\ny",1\n1,0,1\n', 4, "this row has 3 cells"),  # a quoted cell may hold a line break
        ("a,b\n0,\n1,\n", None, "column 'b' has no value in any row"),
        ('a,b\n0,"1\n', 2, "no CSV"),
    ],
)
def test_broken_files(text: str, line: int | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read_table(file_of(tmp_path, text))
    assert caught.value.line == line


def test_a_hidden_column_must_be_there_to_be_empty(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no column 'h'"):
        read_table(file_of(tmp_path, "a,b\n0,1\n"), may_be_empty=["h"])


_LETTERS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=4)
TEXT = _LETTERS | st.builds("{}{}{}".format, _LETTERS, st.sampled_from(["\r", "\n", "\r\n", " ", '"', ","]), _LETTERS)


@given(data=st.data())
def test_writing_and_reading_give_the_same(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    names = data.draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    labels = [tuple(data.draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))) for _ in names]
    known = Vocabulary(tuple(names), tuple(labels))
    rows = data.draw(st.integers(1, 4))
    values = np.array(
        [[data.draw(st.integers(-1, len(own) - 1)) for own in labels] for _ in range(rows)], dtype=np.int64
    )
    path = tmp_path_factory.mktemp("tables") / "t.csv"
    write_table(path, known, values)
    again = read_table(path, vocabulary=known)
    assert np.array_equal(again.values, values)


def test_writing_some_columns_and_refusing_values_without_a_label(tmp_path: Path) -> None:
    known = Vocabulary(("a", "b"), (("x", "y"), ("u", "v")))
    path = tmp_path / "out.csv"
    write_table(path, known, [[0, 1], [1, -1]], columns=["b"])
    assert path.read_text() == 'b\nv\n""\n'
    with pytest.raises(ValueError, match="row 1 gives variable 'b' the value 2"):
        write_table(path, known, [[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="no variable is called 'c'"):
        write_table(path, known, [[0, 1]], columns=["c"])


def test_unseen_labels_may_count_as_missing(tmp_path: Path) -> None:
    vocabulary = Vocabulary(("a", "b"), (("x", "y"), ("0", "1")))
    (tmp_path / "t.csv").write_text("a,b\nx,1\nz,0\ny,2\n,\nz,1\n")
    with pytest.raises(FormatError, match="line 3: variable 'a' has no value 'z'"):
        read_table(tmp_path / "t.csv", vocabulary=vocabulary)
    with pytest.warns(
        DataWarning, match=r"3 cells hold labels.* line 3 \('z' in column 'a'; the values are 'x', 'y'\)"
    ) as told:
        table = read_table(tmp_path / "t.csv", vocabulary=vocabulary, unseen_is_missing=True, whole=["b"])
    assert len(told) == 1 and table.values.tolist() == [[0, 1], [-1, 0], [1, -1], [-1, -1], [-1, 1]]
    with pytest.warns(DataWarning, match="2 cells hold labels"):  # a number that is not predicted is the nearest
        table = read_table(tmp_path / "t.csv", vocabulary=vocabulary, unseen_is_missing=True)
    assert table.values[2].tolist() == [1, 1]


def test_many_numbers_are_cut_and_rare_labels_pooled(tmp_path: Path) -> None:
    rows = [f"{place / 2},{place % 3},word{place % 150},{place}" for place in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["size,few,word,answer", *rows, ",,word0,7"]) + "\n")
    table = read_table(tmp_path / "t.csv", bins=4, whole=["answer"])
    sizes = dict(zip(table.vocabulary.names, table.vocabulary.cardinalities, strict=True))
    assert sizes == {"size": 4, "few": 3, "word": 100, "answer": 300}
    assert table.vocabulary.labels[0][0].startswith("[-inf, 37") and table.vocabulary.labels[2][-1] == "(other)"
    assert np.bincount(table.values[:-1, 0]).tolist() == [75] * 4 and table.values[-1].tolist()[:2] == [-1, -1]
    (tmp_path / "new.csv").write_text("size,few,word,answer\n-9,7,never,3.5\n")
    with pytest.warns(DataWarning, match="1 cells hold labels that training did not see"):
        new = read_table(tmp_path / "new.csv", vocabulary=table.vocabulary, unseen_is_missing=True, whole=["answer"])
    assert new.values.tolist() == [[0, 2, 99, -1]]
    named = read_table(tmp_path / "t.csv", bins=4, numbers=["answer"], whole=[])
    assert named.vocabulary.cardinalities == (100, 3, 100, 4)
    with pytest.raises(FormatError, match=r"line 2: column 'word' should hold numbers, but holds 'word0'"):
        read_table(tmp_path / "t.csv", bins=4, numbers=["word"])


def test_only_plain_numbers_order_labels(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n10,1_0\n9,9\n2e0,2\n")
    assert read_table(tmp_path / "t.csv").vocabulary.labels == (("2e0", "9", "10"), ("1_0", "2", "9"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_what_separates_columns_is_seen_where_that_is_asked_for(tmp_path: Path, mark: str) -> None:
    path = file_of(tmp_path, f'name{mark}price\n"a{mark} b"{mark}1\n')
    assert read_cells(path, delimiter=None) == (["name", "price"], [[f"a{mark} b", "1"]], [2])
    if mark != ",":
        with pytest.raises(FormatError, match="columns seem to be separated by"):
            read_cells(path)


def test_numbers_too_large_are_named_by_line_and_column(tmp_path: Path) -> None:
    """In training and in use, few values or many; a label of a column of texts may look as it likes."""
    words = r"data.csv, line 3: column 'a' holds '-1e400', more than a number can be; leave the cell empty"
    spoilt = file_of(tmp_path, "a,b\n1,x\n-1e400,y\n2,x\n3,y\n")
    known = Vocabulary(("a", "b"), (("[-inf, 2)", "[2, inf)"), ("x", "y")))
    for reading in (
        lambda: read_table(spoilt),
        lambda: read_table(spoilt, bins=2),
        lambda: read_table(spoilt, vocabulary=known, unseen_is_missing=True),
    ):
        with pytest.raises(FormatError, match=words):
            reading()
    assert read_table(file_of(tmp_path, "a\n1e400\nmany\n")).vocabulary.labels == (("1e400", "many"),)
