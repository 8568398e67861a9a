"""Pictures of training: the loss and the measure of development data, run beside run.

In: histories by name. Out: axes, or a PNG file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from loopwise.learn.history import History
from loopwise.plot.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, plain

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK)


def draw_histories(histories: Mapping[str, History], axes: Axes | None = None) -> Axes:
    """Training losses as lines, development data dashed in the same colour; a dot where a new stage begins."""
    if axes is None:
        figure = Figure(figsize=(7.0, 4.4), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
    plain(axes)
    for number, (name, history) in enumerate(histories.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [epoch.number for epoch in history]
        axes.plot(places, history.losses, color=colour, linewidth=1.8, label=name)
        firsts = [epoch for before, epoch in zip(history, [*history][1:], strict=False) if epoch.stage != before.stage]
        axes.plot([e.number for e in firsts], [e.loss for e in firsts], "o", color=colour, markersize=5)
        if history.dev:
            measured = [epoch.number for epoch in history if epoch.dev is not None]
            axes.plot(measured, history.dev, color=colour, linewidth=1.4, linestyle="--")
    axes.set_xlabel("epoch")
    axes.set_ylabel("training loss (dashed: development data)")
    if histories:
        axes.legend(frameon=False)
    return axes


def save_histories(histories: Mapping[str, History], path: Path) -> None:
    """:func:`draw_histories` as a PNG file."""
    from loopwise.formats import atomic_write_bytes

    figure: Any = draw_histories(histories).figure
    with atomic_write_bytes(path) as stream:
        figure.savefig(stream, format="png")
