"""Pictures of gradient estimators: error against time, and time against the size of the problem.

In: measurements. Out: axes, or a PNG file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, plain

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK, "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LEAST = 1e-16  # an error of 0 is drawn here


class Measured(Protocol):
    """What a point needs."""

    @property
    def estimator(self) -> str: ...
    @property
    def valid(self) -> bool: ...
    @property
    def error(self) -> float: ...
    @property
    def times_forward(self) -> float: ...


@dataclass(frozen=True)
class Curve:
    """One line of a panel; a point is left out where ``y`` is None."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


@dataclass(frozen=True)
class Panel:
    """One set of axes, both logarithmic unless ``straight``."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    straight: bool = False  # the x axis is linear


def draw_gradients(rows: Iterable[Measured], axes: Axes | None = None) -> Axes:
    """Relative error against time in forward passes; estimators that are not valid are listed below the axes' top."""
    if axes is None:
        figure = Figure(figsize=(7.0, 4.4), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
    rows = list(rows)
    plain(axes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for number, row in enumerate(rows):
        if row.valid:
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(
                [row.times_forward], [max(row.error, LEAST)], marker, color=colour, markersize=9, linestyle="none",
                label=row.estimator,
            )  # fmt: skip
    _round_limits(axes, [row for row in rows if row.valid])
    if any(row.valid for row in rows):
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    missing = [row.estimator for row in rows if not row.valid]
    if missing:
        axes.set_title(f"not valid here: {', '.join(missing)}", loc="left", fontsize=9, color="#555555")
    axes.set_xlabel("time of forward and backward, in forward passes")
    axes.set_ylabel("relative error of the gradient")
    return axes


def save_gradients(rows: Iterable[Measured], path: Path) -> None:
    """:func:`draw_gradients` as a PNG file."""
    from loopwise.formats import atomic_write_bytes

    figure: Any = draw_gradients(rows).figure
    with atomic_write_bytes(path) as stream:
        figure.savefig(stream, format="png")


def save_panels(panels: Sequence[Panel], columns: int, path: Path) -> None:
    """Panels in rows of ``columns``, one colour a name in all of them, one legend below."""
    from loopwise.formats import atomic_write_bytes

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.5 * rows + 0.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    styles = {name: (COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]) for k, name in enumerate(names)}
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw_panel(axes, panel, styles, handles)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(6, max(1, len(handles))), frameon=False
    )
    with atomic_write_bytes(path) as stream:
        figure.savefig(stream, format="png")


def _draw_panel(axes: Axes, panel: Panel, styles: Mapping[str, tuple[str, str]], handles: dict[str, Any]) -> None:
    plain(axes)
    for number, curve in enumerate(panel.curves):
        points = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None and math.isfinite(y)]
        if not points:
            continue
        colour, marker = styles[curve.name]
        (line,) = axes.plot(
            [x for x, _ in points], [max(y, LEAST) for _, y in points], marker=marker, color=colour, linewidth=1.6,
            markersize=max(4.0, 9.0 - number),  # so that a curve shows behind one that lies on it
        )  # fmt: skip
        handles.setdefault(curve.name, line)
    places = sorted({x for curve in panel.curves for x in curve.x})
    if not panel.straight:
        axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def _round_limits(axes: Axes, rows: Sequence[Measured]) -> None:
    """Some room around the points: with one of them, logarithmic axes would have no extent."""
    if rows:
        times, errors = [row.times_forward for row in rows], [max(row.error, LEAST) for row in rows]
        axes.set_xlim(min(0.8, min(times) / 1.5), max(10.0, max(times) * 1.5))
        axes.set_ylim(min(errors) / 30, max(1.0, max(errors) * 3))
