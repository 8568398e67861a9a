"""Pictures of grafting: what factors saved, and what they took.

In: steps of :func:`loopwise.budget.graft`. Out: axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopwise.budget.graft import GraftStep
from loopwise.plot.style import COLOURS, FAINT, new_grid, plain, whole_numbers


def grafting(steps: Sequence[GraftStep], loss: float | None = None) -> Any:
    """Development loss against the number of factors added, and against seconds; crosses are what was taken back.

    ``loss``: before the first factor, where it is known.

    Returns an array of two axes.
    """
    if not steps:
        raise ValueError("there is no step of grafting to draw: nothing was tried")
    grid = new_grid(1, 2, 9.2, 3.6)
    panels: list[tuple[Any, str, list[float]]] = [
        (grid.flat[0], "factors added", [float(_tried(step)) for step in steps]),
        (grid.flat[1], "seconds", [step.seconds for step in steps]),
    ]
    for axes, label, places in panels:
        plain(axes)
        points = [(0.0, loss)] if loss is not None else []
        points += [(place, step.loss) for place, step in zip(places, steps, strict=True) if step.kept]
        lost = [(place, step.loss) for place, step in zip(places, steps, strict=True) if not step.kept]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=COLOURS[0], linewidth=1.8, markersize=5, label="kept")
        if lost:
            axes.plot(*zip(*lost, strict=True), "x", color=FAINT, markersize=7, label="taken back")
        axes.set_xlabel(label)
        axes.set_ylabel("development loss")
        axes.legend(frameon=False)
    whole_numbers(grid.flat[0])
    return grid


def _tried(step: GraftStep) -> int:
    """Factors there were with those of a step, whether they stayed or not."""
    return step.factors if step.kept else step.factors + len(step.added)
