"""The tables of the collection: cells as users have them, folds, and cells taken away.

In: a folder. Out: :class:`Data`, rows of training and test, masks that all methods share.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.arff import read_arff

NAMES = (
    "sponge", "zoo", "bridges.version2", "lymph", "hepatitis", "audiology", "breast.cancer", "heart.c",
    "primary.tumor", "dermatology", "soybean", "tic-tac-toe", "credit.g", "car", "splice", "kr.vs.kp", "mushroom",
)  # fmt: skip
# Numbers of these were looked at while the method was made; claims are about the others.
DESIGN = ("car", "heart.c", "lymph", "soybean", "splice", "kr.vs.kp")
SET_ASIDE = tuple(name for name in NAMES if name not in DESIGN)
FOLDS = 5
NAMES_OF_ROWS = 0.5  # a column of labels of which more than this share differ names rows, and is left out

Cells = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Data:
    """Cells ``[rows, columns]``: texts, numbers, None; the class is the last column."""

    name: str
    cells: Cells
    numeric: tuple[bool, ...]  # of each column


def read_data(folder: Path, name: str) -> Data:
    """One table, rows without a class left out."""
    table = read_arff(folder / "tables" / f"{name}.arff.gz")
    columns, numeric = [], []
    for place, attribute in enumerate(table.attributes):
        cells = np.empty(len(table.data), dtype=object)
        known = ~np.isnan(table.data[:, place])
        if attribute.values is None:
            cells[known] = table.data[known, place].tolist()
        else:
            cells[known] = [attribute.values[int(value)] for value in table.data[known, place]]
            if len(set(cells[known])) > NAMES_OF_ROWS * len(cells):
                continue
        columns.append(cells)
        numeric.append(attribute.values is None)
    whole = np.stack(columns, axis=1)
    return Data(name, whole[[cell is not None for cell in whole[:, -1]]], tuple(numeric))


def folds_of(data: Data, seed: int) -> NDArray[np.int64]:
    """The fold of each row: classes are spread over folds."""
    rng = np.random.default_rng([seed, _number(data.name)])
    order = rng.permutation(len(data.cells))
    order = order[np.argsort([str(cell) for cell in data.cells[order, -1]], kind="stable")]
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % FOLDS
    return fold


def taken_away(cells: Cells, outputs: int, rate: float, *, seed: int, salt: str) -> Cells:
    """A copy without so many of its input cells, the same for all methods; the last ``outputs`` columns stay."""
    rng = np.random.default_rng([seed, _number(salt), int(1000 * rate)])
    found = cells.copy()
    mask = rng.random(cells.shape) < rate
    mask[:, -outputs:] = False
    found[mask] = None
    return found


def _number(text: str) -> int:
    return zlib.crc32(text.encode())
