"""Pictures of training: the loss and the measure of development data, run beside run.

In: histories. Out: axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loopwise.learn.history import History
from loopwise.plot.style import COLOURS, new_axes, plain, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def history(found: History | Mapping[str, History], *, axes: Axes | None = None) -> Axes:
    """Training losses of one run or several by name, development data dashed in the same colour; a dot where a new
    stage begins."""
    histories = {"": found} if isinstance(found, History) else found
    axes = new_axes() if axes is None else axes
    plain(axes)
    for number, (name, run) in enumerate(histories.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [epoch.number for epoch in run]
        axes.plot(places, run.losses, color=colour, linewidth=1.8, label=name or None)
        firsts = [epoch for before, epoch in zip(run, [*run][1:], strict=False) if epoch.stage != before.stage]
        axes.plot([e.number for e in firsts], [e.loss for e in firsts], "o", color=colour, markersize=5)
        if run.dev:
            numbers = [epoch.number for epoch in run if epoch.dev is not None]
            axes.plot(numbers, run.dev, color=colour, linewidth=1.4, linestyle="--")
    axes.set_xlabel("epoch")
    measured = any(run.dev for run in histories.values())
    axes.set_ylabel("training loss (dashed: development data)" if measured else "training loss")
    whole_numbers(axes)
    if any(histories):
        axes.legend(frameon=False)
    return axes
