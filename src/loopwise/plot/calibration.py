"""Reliability diagrams: how often events happen against how probable they were said to be.

In: :class:`~loopwise.loss.calibration.Reliability` by name. Out: axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from loopwise.loss.calibration import Reliability
from loopwise.plot.style import COLOURS, PALE, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST, SMALLEST = 9.0, 2.0  # of the dots, which grow with the number of events


def reliability(
    found: Reliability | Mapping[str, Reliability], *, colours: Sequence[str] = COLOURS, axes: Axes | None = None
) -> Axes:
    """Lines of one or several by name; on the diagonal beliefs mean what they say.

    Dots grow with the share of events in their bin. :func:`lw.metric.reliability <loopwise.loss.metric.reliability>`
    makes what is drawn, from beliefs and what happened.
    """
    several = {"": found} if isinstance(found, Reliability) else found
    axes = new_axes(4.6, 4.4) if axes is None else axes
    plain(axes)
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=0.8)
    for number, (name, rows) in enumerate(several.items()):
        colour, there = colours[number % len(colours)], rows.count > 0
        label = f"{name} (error {rows.error:.3f})".lstrip()
        axes.plot(rows.confidence[there], rows.frequency[there], color=colour, linewidth=1.4, label=label)
        share = np.sqrt(rows.count[there] / rows.count.max())
        sizes = SMALLEST + (LARGEST - SMALLEST) * share
        axes.scatter(rows.confidence[there], rows.frequency[there], s=sizes**2, color=colour, linewidths=0)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="believed probability", ylabel="how often it was so")
    axes.set_aspect("equal")
    if several:
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    return axes
