"""More base images for the bimodal and Gaussian noise of Table 1: shapes and text, drawn here.

In: how many. Out: :func:`drawn_images`. They stand in for the four images of Kumar & Hebert as the four of
:mod:`loopwise.demo.base_images` do, so that rows are compared over more than three images that were not trained on.
"""

from __future__ import annotations

import numpy as np

from loopwise.demo.base_images import GLYPHS, SIDE, Labels

MOST = 24


def drawn_images(count: int) -> Labels:
    """The first ``count`` of 24 binary images ``[count, 64, 64]``: by turns shapes and text, the same every time."""
    if not 0 <= count <= MOST:
        raise ValueError(f"there are {MOST} drawn images, not {count}")
    images = [_shapes(number) if number % 2 == 0 else _text(number) for number in range(count)]
    return np.stack(images).astype(np.int64) if images else np.zeros((0, SIDE, SIDE), dtype=np.int64)


def _shapes(number: int) -> np.ndarray:
    """Disks, boxes and bars at random places, some of them cut out of others."""
    rng = np.random.default_rng([2010, number])
    rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float64)
    image = np.zeros((SIDE, SIDE), dtype=bool)
    for _ in range(int(rng.integers(4, 9))):
        row, column = rng.uniform(8, SIDE - 8, 2)
        size = rng.uniform(4, 14)
        kind = rng.integers(0, 3)
        if kind == 0:
            shape = (rows - row) ** 2 + (columns - column) ** 2 <= size**2
        elif kind == 1:
            shape = (abs(rows - row) <= size) & (abs(columns - column) <= rng.uniform(4, 14))
        else:
            slope = rng.uniform(-1.5, 1.5)
            shape = (abs((rows - row) - slope * (columns - column)) <= 3 + size / 4) & (
                abs(columns - column) <= 2 * size
            )
        image = image & ~shape if rng.random() < 0.3 else image | shape
    return image


def _text(number: int) -> np.ndarray:
    """Letters in lines, two to four times as large as their glyphs."""
    rng = np.random.default_rng([2010, number])
    image, scale = np.zeros((SIDE, SIDE), dtype=bool), int(rng.integers(2, 5))
    height, width = 8 * scale + 2, 6 * scale
    letters = sorted(GLYPHS)
    for top in range(2, SIDE - 7 * scale, height):
        for left in range(2 + int(rng.integers(0, scale + 1)), SIDE - 5 * scale, width):
            glyph = np.array([[mark == "1" for mark in line] for line in GLYPHS[str(rng.choice(letters))].split()])
            large = np.kron(glyph, np.ones((scale, scale), dtype=bool))
            image[top : top + large.shape[0], left : left + large.shape[1]] |= large
    return image
