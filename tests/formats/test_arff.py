"""ARFF files and lists of labels: what is read, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loopwise.formats.arff import read_arff, read_label_names
from loopwise.formats.errors import FormatError
from oracles.arff_texts import DENSE, HEADER, SPARSE, write


@pytest.mark.parametrize("name", ["data.arff", "data.arff.gz"])
def test_dense(tmp_path: Path, name: str) -> None:
    table = read_arff(write(tmp_path, DENSE, name))
    assert [attribute.name for attribute in table.attributes] == ["width in cm", "kind", "flag", "on", "off"]
    assert table.attributes[1].values == ("red", "dark blue", 'it"s') and table.attributes[0].values is None
    nan = np.nan
    np.testing.assert_array_equal(table.data, [[1.5, 0, 0, 1, 0], [-2e3, 1, 1, 0, 1], [nan, nan, 1, 1, 1]])
    assert table.relation == "two words: -C 2" and table.meka_labels == ("width in cm", "kind")


def test_sparse_rows_are_the_same_table(tmp_path: Path) -> None:
    table = read_arff(write(tmp_path, SPARSE))
    dense = read_arff(write(tmp_path, DENSE, "dense.arff"))
    np.testing.assert_array_equal(table.data.toarray()[:3], dense.data)
    assert not table.data.toarray()[3].any() and table.data.nnz == 11  # zeros and first values are not stored


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (HEADER + "1,red,0,1,1\n1,red,0,1\n", 11, "4 values; there are 5"),
        (HEADER + "1,green,0,1,1\n", 10, "'kind' has no value 'green'"),
        (HEADER + "one,red,0,1,1\n", 10, "'one' is no number"),
        (HEADER + "1e999,red,0,1,1\n", 10, "finite"),
        *[
            (HEADER + f"{text},red,0,1,1\n", 10, "is no number; attribute 'width in cm' is numeric")
            for text in ("1_0", "inf", "-Infinity", "nan", "\u0661", "0x10", "1e", "--1", "1 2")
        ],
        ("@relation r\n@attribute a real\n@attribute b {0,1}\n@data\n1,0\n1_0,1\n", 6, "'1_0' is no number"),
        (HEADER + "{0 1, \u00b2 1}\n", 10, "is not the number of an attribute"),
        (HEADER + "{" + "9" * 5000 + " 1}\n", 10, "no attribute number 9999999999"),
        (HEADER + "x" * 5000 + ",red,0,1,1\n", 10, r"\(5000 characters\) is no number"),
        (HEADER + "1,red,2,1,1\n", 10, "'flag' has no value '2'"),
        (HEADER + "1,'dark blue' x,0,1,1\n", 10, "a comma was expected"),
        (HEADER + "{0 1}\n1,red,0,1,1\n", 11, "no braces"),
        (HEADER + "{0 1, 7 1}\n", 10, "no attribute number 7"),
        (HEADER + "{2 1, 1 red}\n", 10, "must rise"),
        (HEADER + "{0}\n", 10, "'0' is not the number"),
        (HEADER, None, "no rows"),
        ("@relation r\n@attribute a numeric\n", None, "no @data"),
        ("@relation r\n@data\n1\n", 2, "no @attribute"),
        ("@relation r\n@attribute a numeric\n@attribute a numeric\n@data\n", 3, "two attributes are called 'a'"),
        ("@relation r\n@attribute a string\n", 2, "of type string"),
        ("@relation r\n@attribute a {x,y\n", 2, "closing brace"),
        ("@relation r\n@attribute a what\n", 2, "unknown type 'what'"),
        ("x,y\n1,2\n", 1, "is this ARFF?"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) and "@" not in value else "",
)
def test_bad_files(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    with pytest.raises(FormatError, match=words) as problem:
        read_arff(write(tmp_path, text))
    assert problem.value.line == line and "data.arff" in str(problem.value)


def test_numeric_tables_with_bad_cells(tmp_path: Path) -> None:
    """Rows of numbers are read in bulk; the message still names the cell."""
    head = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@data\n1,0\n"
    for row, words in (
        ("2,3", "'b' has no value '3'"),
        ("x,1", "'x' is no number"),
        ("nan,1", "no number"),
        ("1e999,1", "finite"),
    ):
        with pytest.raises(FormatError, match=words) as problem:
            read_arff(write(tmp_path, head + row + "\n"))
        assert problem.value.line == 6
    table = read_arff(write(tmp_path, head + "?,1\n"))
    np.testing.assert_array_equal(table.data, [[1, 0], [np.nan, 1]])


def test_entities_are_refused_in_any_encoding(tmp_path: Path) -> None:
    text = "<?xml version='1.0' encoding='utf-16'?><!DOCTYPE x [<!ENTITY a 'b'>]><labels><label name='&a;'/></labels>"
    (tmp_path / "labels.xml").write_bytes(text.encode("utf-16"))
    with pytest.raises(FormatError, match="entities"):
        read_label_names(tmp_path / "labels.xml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<labels><label name='a'></labels>", "no XML"),
        ("<labels></labels>", "no <label"),
        ("<labels><label/></labels>", "no <label"),
        ("<labels><label name='a'/><label name='a'/></labels>", "listed twice"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><labels><label name='&a;'/></labels>", "entities"),
        *[
            (
                f"<?xml version='1.0' encoding='{name}'?><labels><label name='a'/></labels>",
                f"labels.xml.*'{name}' cannot",
            )
            for name in ("no-such-code", "utf-7", "shift_jis", "hex", "x" * 30)
        ],
    ],
)
def test_bad_lists_of_labels(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_label_names(write(tmp_path, text, "labels.xml"))
