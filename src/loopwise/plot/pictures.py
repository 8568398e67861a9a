"""Images: one, or rows of panels with their names; grey for intensities, colours for labels, a map for probabilities.

In: arrays. Out: axes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.images import PALETTE
from loopwise.plot.style import MARGINALS, new_axes, new_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]


def image(pixels: Array, *, states: int = 2, grey: bool = False, axes: Axes | None = None) -> Axes:
    """One image, by what its pixels are.

    Floats ``[rows, columns]`` from 0 to 1 are probabilities, or intensities (``grey``); integers are labels, of
    ``states`` kinds; floats ``[rows, columns, 3]`` are colours.
    """
    pixels = np.asarray(pixels)
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[2] == 3):
        raise ValueError(f"an image is an array [rows, columns] or [rows, columns, 3], not one of shape {pixels.shape}")
    axes = (
        new_axes(4.2, float(np.clip(4.0 * pixels.shape[0] / max(pixels.shape[1], 1), 1.2, 6.0)))
        if axes is None
        else axes
    )
    axes.set_xticks([])
    axes.set_yticks([])
    options: dict[str, Any] = {"interpolation": "nearest"}
    if pixels.ndim == 3:
        axes.imshow(np.clip(pixels, 0, 1), **options)
    elif np.issubdtype(pixels.dtype, np.integer):
        from matplotlib.colors import ListedColormap

        colours = ListedColormap([tuple(part / 255 for part in colour) for colour in PALETTE[:states]])
        axes.imshow(pixels, vmin=-0.5, vmax=states - 0.5, cmap=colours, **options)
    else:
        axes.imshow(pixels, vmin=0, vmax=1, cmap="gray" if grey else MARGINALS, **options)
    return axes


def gallery(
    rows: Sequence[Mapping[str, Array]],
    *,
    states: int = 2,
    grey: Collection[str] = ("noisy",),
    titles: bool = False,
    width: float = 2.4,
    dpi: int = 110,
) -> Any:
    """Images (:func:`image`) in rows; names stand above the first row, or above every panel (``titles``).

    Those under the names in ``grey`` are intensities. Gives an array ``[rows, columns]`` of axes; ``width`` inches
    each.
    """
    if not rows or not rows[0]:
        raise ValueError("there is no image to draw; give at least one row with one image")
    columns = max(len(row) for row in rows)
    first = next(iter(rows[0].values()))
    height = width * first.shape[0] / first.shape[1]
    tall = height * len(rows) + 0.3 * (len(rows) if titles else 1)
    grid = new_grid(len(rows), columns, width * columns, tall, dpi)
    for place, row in enumerate(rows):
        for axes, (name, pixels) in zip(grid[place], row.items(), strict=False):
            image(pixels, states=states, grey=name in grey, axes=axes)
            if place == 0 or titles:
                axes.set_title(name, fontsize=9)
        for axes in grid[place][len(row) :]:
            axes.set_visible(False)
    return grid
