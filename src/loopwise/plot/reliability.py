"""Reliability diagrams: how often events happen against how probable they were said to be.

In: :class:`~loopwise.loss.calibration.Reliability` by name. Out: axes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from loopwise.loss.calibration import Reliability
from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, plain

COLOURS = (ORANGE, BLUE, GREEN, PURPLE, BLACK)
LARGEST, SMALLEST = 9.0, 2.0  # of the dots, which grow with the number of events


def draw_reliability(found: Mapping[str, Reliability], axes: Axes | None = None) -> Axes:
    """One line each; on the diagonal beliefs mean what they say. Dots grow with the share of events in their bin."""
    if axes is None:
        figure = Figure(figsize=(4.6, 4.4), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
    plain(axes)
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for number, (name, rows) in enumerate(found.items()):
        colour, there = COLOURS[number % len(COLOURS)], rows.count > 0
        label = f"{name} (error {rows.error:.3f})"
        axes.plot(rows.confidence[there], rows.frequency[there], color=colour, linewidth=1.4, label=label)
        share = np.sqrt(rows.count[there] / rows.count.max())
        sizes = SMALLEST + (LARGEST - SMALLEST) * share
        axes.scatter(rows.confidence[there], rows.frequency[there], s=sizes**2, color=colour, linewidths=0)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="believed probability", ylabel="how often it was so")
    axes.set_aspect("equal")
    if found:
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    return axes
