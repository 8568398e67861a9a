"""Check matrices of codes, in the layouts that people keep them in.

In: a path ending in ``.alist`` (MacKay's lists), ``.txt`` or ``.csv`` (rows of 0 and 1), ``.npy`` (a dense array) or
``.npz`` (as ``scipy.sparse.save_npz`` writes it); ``.gz`` may follow a text. Out: a SciPy CSR matrix of 0 and 1.
"""

from __future__ import annotations

import io
import os
import zipfile
from typing import Any

import numpy as np

from loopwise.formats.errors import FormatError, quoted
from loopwise.formats.files import PathLike, display_name, read_bytes, read_text
from loopwise.formats.limits import current_limits, too_large
from loopwise.formats.lines import is_blank, split_lines

SUFFIXES = (".alist", ".txt", ".csv", ".npy", ".npz")


def read_check_matrix(path: PathLike) -> Any:
    """The matrix of a file.

    Raises
    ------
    FormatError
        Where the file is not what its name says; one sentence that names the line.
    """
    name = os.fspath(path).lower().removesuffix(".gz")
    if name.endswith(".alist"):
        return _read_alist(path)
    if name.endswith((".txt", ".csv")):
        return _read_dense(path)
    if name.endswith(".npz"):
        return _read_npz(path)
    if name.endswith(".npy"):
        return _binary(display_name(path), read_array(path))
    raise FormatError(
        display_name(path),
        None,
        f"the name does not say how the check matrix is laid out; it should end in {', '.join(SUFFIXES)}",
    )


def read_array(path: PathLike) -> np.ndarray:
    """The array of a ``.npy`` file; nothing in it is run."""
    data = read_bytes(path)
    try:
        if not data.startswith(np.lib.format.MAGIC_PREFIX):
            raise ValueError("it does not begin as one does")
        found: np.ndarray = np.load(io.BytesIO(data), allow_pickle=False)
        return found
    except (ValueError, EOFError, OSError) as problem:
        reason = " ".join(str(problem).split())
        raise FormatError(display_name(path), None, f"this is no .npy file of numbers ({reason})") from None


def _binary(where: str, given: np.ndarray) -> Any:
    from scipy.sparse import csr_matrix

    if given.ndim != 2 or given.dtype.kind not in "biuf":
        raise FormatError(where, None, f"a check matrix is two-dimensional, not {given.dtype} of shape {given.shape}")
    bad = np.argwhere((given != 0) & (given != 1))
    if len(bad):
        row, column = bad[0]
        raise FormatError(
            where, None, f"row {row}, column {column} of the check matrix is {given[row, column]}; it must be 0 or 1"
        )
    return csr_matrix(given.astype(np.uint8))


def _read_dense(path: PathLike) -> Any:
    where, rows, width = display_name(path), [], None
    for number, line in enumerate(split_lines(read_text(path), where), start=1):
        if is_blank(line):
            continue
        cells = line.replace(",", " ").split()
        wrong = next((cell for cell in cells if cell not in ("0", "1")), None)
        if wrong is not None:
            raise FormatError(where, number, f"{quoted(wrong)} is no entry of a check matrix; entries are 0 or 1")
        if width is not None and len(cells) != width:
            raise FormatError(where, number, f"the row has {len(cells)} entries, the first one has {width}")
        width = len(cells)
        rows.append(np.array([cell == "1" for cell in cells]))
    if not rows:
        raise FormatError(where, None, "the file holds no row of a check matrix")
    return _binary(where, np.array(rows, dtype=np.uint8))


def _read_npz(path: PathLike) -> Any:
    from scipy.sparse import load_npz

    where, data = display_name(path), read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > current_limits().unpacked:
                raise FormatError(where, None, too_large(current_limits().unpacked))
        found = load_npz(io.BytesIO(data)).tocsr()
    except FormatError:
        raise
    except Exception as problem:  # whatever an archive of something else leads to
        reason = " ".join(str(problem).split())
        raise FormatError(
            where, None, f"this is no sparse matrix as scipy.sparse.save_npz writes it ({reason})"
        ) from None
    found.sum_duplicates()
    if found.nnz and not np.isin(found.data, (0, 1)).all():
        bad = found.data[~np.isin(found.data, (0, 1))][0]
        raise FormatError(where, None, f"the check matrix has an entry {bad}; entries must be 0 or 1")
    found.eliminate_zeros()
    return found.astype(np.uint8)


def _read_alist(path: PathLike) -> Any:
    from scipy.sparse import csr_matrix

    where = display_name(path)
    given = [
        (number, _integers(where, number, line))
        for number, line in enumerate(split_lines(read_text(path), where), start=1)
    ]
    lines = [line for line in given if line[1]][:4]
    if len(lines) < 4 or len(lines[0][1]) != 2:
        raise FormatError(where, 1, "an .alist file begins with the numbers of columns and rows on a line of their own")
    (columns, rows), by_column, by_row = lines[0][1], lines[2], lines[3]
    for what, count, (number, degrees) in (("column", columns, by_column), ("row", rows, by_row)):
        if len(degrees) != count:
            raise FormatError(where, number, f"the line has {len(degrees)} numbers, one for each {what} are {count}")
    lists = _lists(given[given.index(by_row) + 1 :], [*by_column[1], *by_row[1]])
    if len(lists) < columns:
        raise FormatError(where, given[-1][0], f"{columns} lines of columns should follow, but {len(lists)} do")
    places: list[tuple[int, int]] = []
    for column, (number, mine) in enumerate(lists[:columns]):
        if len(mine) != by_column[1][column]:
            raise FormatError(where, number, f"column {column + 1} lists {len(mine)} rows, not {by_column[1][column]}")
        wrong = next((entry for entry in mine if not 1 <= entry <= rows), None)
        if wrong is not None:
            raise FormatError(
                where, number, f"column {column + 1} lists row {wrong}; rows are counted from 1 to {rows}"
            )
        places += [(entry - 1, column) for entry in mine]
    found = csr_matrix(
        (np.ones(len(places), np.uint8), tuple(np.array(places, dtype=np.int64).reshape(-1, 2).T)), (rows, columns)
    )
    _compare_rows(where, found, lists[columns:])
    return found


def _lists(lines: list[tuple[int, list[int]]], degrees: list[int]) -> list[tuple[int, list[int]]]:
    """A line for each list, without the zeros that fill it. Blank lines are none, but where a list is empty."""
    found: list[tuple[int, list[int]]] = []
    for number, entries in lines:
        if len(found) < len(degrees) and (entries or degrees[len(found)] == 0):
            found.append((number, [entry for entry in entries if entry]))
    return found


def _compare_rows(where: str, found: Any, lines: list[tuple[int, list[int]]]) -> None:
    """The second half of an .alist says the same again, row by row."""
    for row, (number, entries) in enumerate(lines[: found.shape[0]]):
        theirs = sorted(entry - 1 for entry in entries)
        if theirs != sorted(found.indices[found.indptr[row] : found.indptr[row + 1]].tolist()):
            raise FormatError(where, number, f"row {row + 1} lists other columns than the columns' lists say")


def _integers(where: str, number: int, line: str) -> list[int]:
    found = []
    for word in line.split():
        if not word.isdigit() or len(word) > 9:
            raise FormatError(where, number, f"{quoted(word)} is no count or place of an .alist file")
        found.append(int(word))
    return found
