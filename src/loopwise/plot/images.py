"""Pictures of images: rows of panels with their names, grey for intensities, colours for labels.

In: arrays. Out: a PNG file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from loopwise.formats.images import PALETTE
from loopwise.plot.style import MARGINALS

Array = NDArray[Any]


def save_gallery(
    rows: Sequence[Mapping[str, Array]],
    path: Path,
    *,
    states: int = 2,
    grey: Collection[str] = ("noisy",),
    titles: bool = False,
    width: float = 2.4,
    dpi: int = 110,
) -> None:
    """Panels in rows; names stand above the first row, or above every panel (``titles``).

    Floats ``[rows, columns]`` from 0 to 1 are drawn as probabilities, or as greys under the names in ``grey``; integers
    as labels; floats ``[rows, columns, 3]`` as colours.
    """
    from loopwise.formats import atomic_write_bytes

    columns = max(len(row) for row in rows)
    first = next(iter(rows[0].values()))
    height = width * first.shape[0] / first.shape[1]
    figure = Figure(
        figsize=(width * columns, height * len(rows) + 0.3 * (len(rows) if titles else 1)),
        dpi=dpi,
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    grid: Any = figure.subplots(len(rows), columns, squeeze=False)
    for place, row in enumerate(rows):
        for axes, (name, image) in zip(grid[place], row.items(), strict=False):
            _show(axes, image, states, name in grey)
            if place == 0 or titles:
                axes.set_title(name, fontsize=9)
        for axes in grid[place][len(row) :]:
            axes.set_visible(False)
    with atomic_write_bytes(path) as stream:
        figure.savefig(stream, format="png")


def _show(axes: Any, image: Array, states: int, grey: bool) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    options: dict[str, Any] = {"interpolation": "nearest"}
    if image.ndim == 3:
        axes.imshow(np.clip(image, 0, 1), **options)
    elif np.issubdtype(image.dtype, np.integer):
        colours = ListedColormap([tuple(part / 255 for part in colour) for colour in PALETTE[:states]])
        axes.imshow(image, vmin=-0.5, vmax=states - 0.5, cmap=colours, **options)
    elif grey:
        axes.imshow(image, vmin=0, vmax=1, cmap="gray", **options)
    else:
        axes.imshow(image, vmin=0, vmax=1, cmap=MARGINALS, **options)
