"""Check matrices in files: every layout gives the same matrix, bad ones one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from loopwise.formats.check_matrix import read_check_matrix
from loopwise.formats.errors import FormatError

DENSE = np.array([[1, 1, 0, 1], [0, 1, 1, 0]])
ALIST = """4 2
2 3
1 2 1 1
3 2
1 0
1 2
2 0
1 0
1 2 4
2 3 0
"""


def test_all_layouts_agree(tmp_path: Path) -> None:
    (tmp_path / "a.alist").write_text(ALIST)
    (tmp_path / "a.txt").write_text("1 1 0 1\n0 1 1 0\n")
    (tmp_path / "a.csv").write_text("1,1,0,1\n0,1,1,0\n\n")
    np.save(tmp_path / "a.npy", DENSE.astype(bool))
    save_npz(tmp_path / "a.npz", csr_matrix(DENSE))
    for suffix in ("alist", "txt", "csv", "npy", "npz"):
        np.testing.assert_array_equal(read_check_matrix(tmp_path / f"a.{suffix}").toarray(), DENSE)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.txt", "1 0\n1 2\n", "line 2: '2' is no entry of a check matrix; entries are 0 or 1"),
        ("a.txt", "1 0\n1\n", "line 2: the row has 1 entries, the first one has 2"),
        ("a.txt", "", "the file holds no row of a check matrix"),
        ("a.alist", "4\n", "line 1: an .alist file begins with the numbers of columns and rows"),
        ("a.alist", ALIST.replace("1 2 1 1", "1 2 1"), "line 3: the line has 3 numbers, one for each column are 4"),
        ("a.alist", ALIST.replace("\n2 0\n", "\n3 0\n"), "line 7: column 3 lists row 3; rows are counted from 1 to 2"),
        ("a.alist", ALIST.replace("\n1 2 4\n", "\n1 2 3\n"), "line 9: row 1 lists other columns"),
        ("a.alist", ALIST.replace("\n1 2\n", "\n1 x\n"), "line 6: 'x' is no count or place of an .alist file"),
        ("a.npy", "nonsense", "this is no .npy file of numbers"),
        ("a.npz", "nonsense", "this is no sparse matrix as scipy.sparse.save_npz writes it"),
        ("a.dat", "1 0", "the name does not say how the check matrix is laid out; it should end in .alist, .txt"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError) as caught:
        read_check_matrix(tmp_path / name)
    assert problem in str(caught.value) and name in str(caught.value)


@pytest.mark.parametrize("fill", [" 0 0", ""])
def test_columns_without_entries_may_be_blank_lines(tmp_path: Path, fill: str) -> None:
    text = f"4 2\n2 2\n1 0 1 1\n2 1\n1{fill[2:]}\n{fill}\n2{fill[2:]}\n1{fill[2:]}\n\n1 4\n3{fill[2:]}\n\n"
    (tmp_path / "a.alist").write_text(text)
    assert read_check_matrix(tmp_path / "a.alist").toarray().tolist() == [[1, 0, 0, 1], [0, 0, 1, 0]]


def test_entries_of_arrays_are_bits(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", 2 * DENSE)
    with pytest.raises(FormatError, match="row 0, column 0 of the check matrix is 2; it must be 0 or 1"):
        read_check_matrix(tmp_path / "a.npy")
    save_npz(tmp_path / "a.npz", csr_matrix(3 * DENSE))
    with pytest.raises(FormatError, match="the check matrix has an entry 3"):
        read_check_matrix(tmp_path / "a.npz")
