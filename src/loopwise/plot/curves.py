"""Curves with error bars, several panels on one figure: what tables of results look like.

In: panels of curves. Out: axes. A name has one colour and one marker in all panels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopwise.plot.style import COLOURS, FAINT, MARKERS, new_grid, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 1e-16  # a value of 0 is drawn here on a logarithmic axis


@dataclass(frozen=True)
class Curve:
    """One line: points with standard errors of y where there are any. ``dashed``: something to compare with.

    A point is left out where ``y`` is None or not finite.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    error: Sequence[float] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One set of axes. ``log_x``: the base of a logarithmic x axis, 0 for a straight one. ``ticks``: at the points."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: int = 10
    log_y: bool = False
    ticks: bool = False
    notes: str = ""


def panels(shown: Sequence[Panel], *, columns: int | None = None, one_legend: bool = False) -> Any:
    """An array ``[rows, columns]`` of axes, panels row by row; ``one_legend`` is below all, else each has its own."""
    if not shown:
        raise ValueError("there is no panel to draw; give at least one")
    columns = len(shown) if columns is None else columns
    rows = -(-len(shown) // columns)
    width, height = (4.6, 3.5) if columns > 2 else (6.2, 4.6)
    grid = new_grid(rows, columns, width * columns, height * rows + (0.5 if one_legend else 0.0))
    names = list(dict.fromkeys(curve.name for panel in shown for curve in panel.curves))
    styles = {name: (COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]) for k, name in enumerate(names)}
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, shown, strict=False):
        drawn = _draw(axes, panel, styles)
        if drawn and not one_legend:
            axes.legend(frameon=False, fontsize=8)
        handles = {**handles, **{name: mark for name, mark in drawn.items() if name not in handles}}
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    if one_legend and handles:
        grid[0, 0].figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(6, len(handles)), frameon=False
        )
    return grid


def _label_few(axes: Axes) -> None:
    """Where less than two powers of ten are shown matplotlib writes numbers between them over each other: 1, 2, 5."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axes.get_xlim()
    if high < 100 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())


def _draw(axes: Axes, panel: Panel, styles: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Draws one panel; what a legend needs, by name."""
    plain(axes)
    handles = {}
    for number, curve in enumerate(panel.curves):
        kept = [k for k, y in enumerate(curve.y) if y is not None and math.isfinite(y)]
        if not kept:
            continue
        values = [float(curve.y[k] or 0.0) for k in kept]
        colour, marker = styles[curve.name]
        handles[curve.name] = axes.errorbar(
            [curve.x[k] for k in kept], [max(y, LEAST) for y in values] if panel.log_y else values,
            yerr=None if curve.error is None else [curve.error[k] for k in kept], color=colour, marker=marker,
            markersize=max(4.0, 8.0 - number) if panel.ticks else 5,  # a curve shows behind one that lies on it
            linewidth=1.6, capsize=2, linestyle="--" if curve.dashed else "-", label=curve.name,
        )  # fmt: skip
    if panel.log_x:
        axes.set_xscale("log", base=panel.log_x)
    if panel.ticks:
        places = sorted({x for curve in panel.curves for x in curve.x})
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log")
    if panel.log_x == 10 and not panel.ticks:
        _label_few(axes)
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.notes:
        axes.text(0.02, 0.02, panel.notes, transform=axes.transAxes, fontsize=8, color=FAINT)
    return handles
