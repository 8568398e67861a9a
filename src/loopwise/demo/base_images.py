"""Four small binary images, drawn here, to which noise is added.

In: nothing. Out: :func:`base_images`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

SIDE = 64

GLYPHS = {
    "A": "01110 10001 10001 11111 10001 10001 10001",
    "F": "11111 10000 10000 11110 10000 10000 10000",
    "M": "10001 11011 10101 10101 10001 10001 10001",
    "R": "11110 10001 10001 11110 10100 10010 10001",
    "C": "01111 10000 10000 10000 10000 10000 01111",
}


def base_images() -> Labels:
    """Four binary images ``[4, 64, 64]``: simple shapes, letters, rings and bars, a blob with holes."""
    return np.stack([_shapes(), _letters(), _rings(), _blob()]).astype(np.int64)


def _places() -> tuple[Floats, Floats]:
    row, column = np.mgrid[:SIDE, :SIDE].astype(np.float64)
    return row, column


def _disk(row: float, column: float, radius: float) -> NDArray[np.bool_]:
    rows, columns = _places()
    return np.asarray((rows - row) ** 2 + (columns - column) ** 2 <= radius**2)


def _shapes() -> NDArray[np.bool_]:
    rows, columns = _places()
    image = _disk(18, 18, 12) & ~_disk(18, 18, 5)
    image |= (abs(rows - 18) <= 10) & (abs(columns - 46) <= 11)
    image |= (rows >= 36) & (rows <= 58) & (abs(columns - 18) <= (rows - 36) * 0.6)  # a triangle
    bar = (abs((rows - 47) - 0.8 * (columns - 46)) <= 4) & (abs(columns - 46) <= 13)
    return np.asarray(image | bar)


def _letters() -> NDArray[np.bool_]:
    image = np.zeros((SIDE, SIDE), dtype=np.bool_)
    for text, top in (("MRF", 6), ("CRF", 36)):
        for place, letter in enumerate(text):
            glyph = np.array([[mark == "1" for mark in line] for line in GLYPHS[letter].split()])
            large = np.kron(glyph, np.ones((3, 3), dtype=np.bool_))
            left = 5 + 19 * place
            image[top : top + large.shape[0], left : left + large.shape[1]] |= large
    return image


def _rings() -> NDArray[np.bool_]:
    _, columns = _places()
    image = np.zeros((SIDE, SIDE), dtype=np.bool_)
    for outer, inner in ((30, 25), (19, 14), (8, 3)):
        image |= _disk(31.5, 31.5, outer) & ~_disk(31.5, 31.5, inner)
    return np.asarray(image ^ (abs(columns - 31.5) <= 3))


def _blob() -> NDArray[np.bool_]:
    rows, columns = _places()
    angle, radius = np.arctan2(rows - 32, columns - 32), np.hypot(rows - 32, columns - 32)
    body = radius <= 22 + 6 * np.cos(5 * angle)
    return np.asarray(body & ~_disk(25, 25, 4) & ~_disk(38, 40, 6))
