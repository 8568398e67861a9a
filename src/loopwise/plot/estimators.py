"""Gradient estimators as a picture: error against time.

In: measurements. Out: axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from loopwise.plot.style import COLOURS, FAINT, MARKERS, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def gradients(rows: Iterable[Measured], *, axes: Axes | None = None) -> Axes:
    """Relative error against time in forward passes; estimators that are not valid are named above the axes.

    ``rows``: those of :func:`~loopwise.compare.compare_gradients`.
    """
    rows = list(rows)
    axes = new_axes() if axes is None else axes
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
        axes.set_title(f"not valid here: {', '.join(missing)}", loc="left", fontsize=9, color=FAINT)
    axes.set_xlabel("time of forward and backward, in forward passes")
    axes.set_ylabel("relative error of the gradient")
    return axes


def _round_limits(axes: Axes, rows: Sequence[Measured]) -> None:
    """Some room around the points: with one of them, logarithmic axes would have no extent."""
    if rows:
        times, errors = [row.times_forward for row in rows], [max(row.error, LEAST) for row in rows]
        axes.set_xlim(min(0.8, min(times) / 1.5), max(10.0, max(times) * 1.5))
        axes.set_ylim(min(errors) / 30, max(1.0, max(errors) * 3))
