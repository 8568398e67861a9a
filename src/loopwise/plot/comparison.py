"""The demo's picture: error against coupling strength, and what the marginals of one grid look like.

In: measurements and images. Out: a PNG file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from loopwise.plot.style import BLUE, GREEN, MARGINALS, ORANGE, plain

STYLES = {"BP": (BLUE, "o"), "TRW": (ORANGE, "s"), "mean field": (GREEN, "^")}


class Measurement(Protocol):
    """What a point of the left panel needs."""

    @property
    def coupling(self) -> float: ...
    @property
    def method(self) -> str: ...
    @property
    def error(self) -> float: ...
    @property
    def converged(self) -> int: ...
    @property
    def models(self) -> int: ...


def draw_comparison(
    cells: Sequence[Measurement], images: Mapping[str, NDArray[np.float64]], coupling: float, path: Path
) -> None:
    """Draws both panels and saves them, without touching matplotlib's global state.

    ``images`` show probabilities at strength ``coupling``; at most four of them.
    """
    figure = Figure(figsize=(10.5, 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subfigures(1, 2, width_ratios=(1.1, 1.0), wspace=0.04)
    left, right = panels
    _draw_errors(left.subplots(), cells)
    _draw_images(right, images, coupling)
    figure.savefig(path, format="png")


def _draw_errors(axes: Axes, cells: Sequence[Measurement]) -> None:
    for method, (colour, marker) in STYLES.items():
        mine = [cell for cell in cells if cell.method == method]
        strengths, errors = [cell.coupling for cell in mine], [cell.error for cell in mine]
        axes.plot(strengths, errors, color=colour, linewidth=1.8, zorder=2)
        for cell in mine:
            settled = cell.converged == cell.models
            axes.plot(
                cell.coupling, cell.error, marker, color=colour, markersize=7, zorder=3,
                markerfacecolor=colour if settled else "white", markeredgewidth=1.6,
            )  # fmt: skip
    _name_lines(axes, cells)
    plain(axes)
    axes.set_xlabel("coupling strength (pair weights uniform in ± this)")
    axes.set_ylabel("mean absolute error of marginals")
    axes.set_xlim(0, max(cell.coupling for cell in cells) * 1.02)
    axes.set_ylim(bottom=0)
    axes.set_title("Error of approximate marginals", loc="left", fontsize=11, fontweight="bold")
    axes.text(
        0.02, 0.97, "open marker: not all models converged", transform=axes.transAxes, va="top",
        fontsize=9, color="#555555",
    )  # fmt: skip


def _name_lines(axes: Axes, cells: Sequence[Measurement]) -> None:
    """Names at the right ends of the lines, moved apart where they would overlap."""
    last = max(cell.coupling for cell in cells)
    gap = 0.06 * max(cell.error for cell in cells)
    lowest = -np.inf
    for cell in sorted((cell for cell in cells if cell.coupling == last), key=lambda cell: cell.error):
        lowest = max(cell.error, lowest + gap)
        axes.annotate(
            cell.method, (last, lowest), xytext=(9, 0), textcoords="offset points",
            color=STYLES[cell.method][0], va="center", fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def _draw_images(panel: SubFigure, images: Mapping[str, NDArray[np.float64]], coupling: float) -> None:
    panel.suptitle(f"P(x = 1) on one grid, coupling {coupling:g}", fontsize=11, fontweight="bold")
    axes: Any = panel.subplots(2, 2)
    drawn = None
    for place, (name, image) in zip(axes.flat, images.items(), strict=True):
        drawn = place.imshow(image, vmin=0.0, vmax=1.0, cmap=MARGINALS, interpolation="nearest")
        place.set_title(name, fontsize=10)
        place.set_xticks([])
        place.set_yticks([])
    if drawn is not None:
        bar = panel.colorbar(drawn, ax=axes, shrink=0.85, pad=0.03, ticks=[0, 0.5, 1])
        bar.outline.set_visible(False)
