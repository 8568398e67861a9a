"""How inference settles: the largest change of a belief, sweep by sweep.

In: :class:`~loopwise.Beliefs` with a trace. Out: axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loopwise.inference.beliefs import Beliefs
from loopwise.plot.marginals import trace_of
from loopwise.plot.style import COLOURS, MARKERS, new_axes, plain, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 1e-17  # a change of 0 is drawn here
FILLED = 50  # sweeps up to which every one gets a mark


def convergence(found: Beliefs | Mapping[str, Beliefs], *, axes: Axes | None = None) -> Axes:
    r"""The residual :math:`\max_s|b_s^{(t)}-b_s^{(t-1)}|` after each sweep, for one run or several by name.

    Of a batch the line is the worst example, the shade reaches down to the median one. Needs the beliefs of every
    sweep: run inference with ``trace=True``.
    """
    runs = {found.status.method: found} if isinstance(found, Beliefs) else dict(found)
    drawn_on = new_axes(7.0, 4.0) if axes is None else axes
    plain(drawn_on)
    marked = max((len(trace_of(run)) - 1 for run in runs.values()), default=0) <= FILLED
    for number, (name, run) in enumerate(runs.items()):
        changes = residuals(run)
        sweeps = np.arange(1, len(changes) + 1)
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        worst = np.maximum(changes.max(1, initial=0.0), LEAST)
        label = f"{name} ({'converged' if run.status.converged else 'NOT CONVERGED'})"
        drawn_on.plot(
            sweeps, worst, color=colour, linewidth=1.8, marker=marker if marked else None, markersize=5,
            label=label,
        )  # fmt: skip
        if changes.shape[1] > 1:
            drawn_on.fill_between(
                sweeps, np.maximum(np.median(changes, axis=1), LEAST), worst, color=colour, alpha=0.15, linewidth=0
            )
    drawn_on.set_yscale("log")
    drawn_on.set_xlabel("sweep")
    drawn_on.set_ylabel("largest change of a belief")
    whole_numbers(drawn_on)
    if runs:
        drawn_on.legend(frameon=False, fontsize=9)
    return drawn_on


def residuals(found: Beliefs) -> NDArray[np.float64]:
    """The largest change of a belief in each sweep and example, ``[sweeps, examples]``."""
    trace = trace_of(found).detach().cpu().double()
    change = (trace[1:] - trace[:-1]).abs()
    largest = change.amax(-1) if change.shape[-1] else change.new_zeros(change.shape[:-1])
    return np.asarray(largest.reshape(len(largest), -1).numpy())
