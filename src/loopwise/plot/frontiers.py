"""Pictures of loss against cost.

In: a :class:`~loopwise.budget.Frontier`. Out: axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwise.budget.frontier import Frontier
from loopwise.plot.style import COLOURS, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WITHIN = 30.0  # times the least cost: axes that are labelled by numbers, not by powers of ten


def pareto(frontier: Frontier, *, axes: Axes | None = None) -> Axes:
    """Cost (logarithmic) against loss: a curve through the best points of each method, the others faint.

    :meth:`Frontier.plot <loopwise.budget.Frontier.plot>` in the colours of the other pictures.
    """
    axes = new_axes(6.2, 4.6) if axes is None else axes
    plain(axes)
    axes.set_prop_cycle(color=COLOURS)
    frontier.plot(axes)
    costs = [point.cost for point in frontier if point.cost > 0]
    if costs and max(costs) < WITHIN * min(costs):  # no power of ten may lie between: write numbers
        from matplotlib.ticker import FormatStrFormatter

        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(FormatStrFormatter("%g"))
    return axes
