"""Pictures of loss against cost: frontiers, and curves with error bars beside published ones.

In: a :class:`~loopwise.budget.Frontier`, or curves. Out: a PNG file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from loopwise.budget.frontier import Frontier
from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, plain

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK, "#56B4E9", "#E69F00", "#999999", "#7F3C8D", "#B00020")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h", "<")


@dataclass(frozen=True)
class Curve:
    """One line: points with standard errors of y where there are any. ``dashed``: something to compare with."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = True
    notes: str = ""


def save_frontier(frontier: Frontier, path: Path) -> None:
    """:meth:`Frontier.plot <loopwise.budget.Frontier.plot>` in the style of the other pictures, as a PNG file."""
    figure, axes = _figure(1)
    plain(axes[0])
    axes[0].set_prop_cycle(color=COLOURS)
    frontier.plot(axes[0])
    _save(figure, path)


def save_panels(panels: Sequence[Panel], path: Path) -> None:
    """Panels side by side, each with a legend; colours follow the names of curves in all of them."""
    figure, axes = _figure(len(panels))
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    for place, panel in zip(axes, panels, strict=True):
        _draw(place, panel, names)
    _save(figure, path)


def _draw(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    plain(axes)
    for curve in panel.curves:
        number = names.index(curve.name)
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.errorbar(
            curve.x, curve.y, yerr=curve.error, color=colour, marker=marker, markersize=5, linewidth=1.6, capsize=2,
            linestyle="--" if curve.dashed else "-", label=curve.name,
        )  # fmt: skip
    if panel.log_x:
        axes.set_xscale("log")
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.notes:
        axes.text(0.02, 0.02, panel.notes, transform=axes.transAxes, fontsize=8, color="#555555")
    if panel.curves:
        axes.legend(frameon=False, fontsize=8)


def _figure(count: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(6.2 * count, 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    grid: Any = figure.subplots(1, count, squeeze=False)
    return figure, list(grid[0])


def _save(figure: Figure, path: Path) -> None:
    from loopwise.formats import atomic_write_bytes

    with atomic_write_bytes(path) as stream:
        figure.savefig(stream, format="png")
