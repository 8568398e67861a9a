r"""Points of loss and cost: which are worth having, and how much they are worth together.

In: points. Out: :class:`Frontier`, its hulls and hypervolumes, a picture. Stage: budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from loopwise.learn.system import System

MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Point:
    """One system: how well it does and what an example costs it. ``setting``: the price or number behind it."""

    method: str
    setting: float
    cost: float  # mean over examples, in the unit of the cost model
    loss: float
    sweeps: float = math.nan  # mean over examples
    factors: int = 0  # of two and more variables; of examples of a template, on average
    seconds: float | None = None  # measured, of an example
    system: System | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and strings; the system is left out."""
        names = ("method", "setting", "cost", "loss", "sweeps", "factors", "seconds")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def best_points(points: Iterable[Point]) -> list[Point]:
    """Those that no other beats in both cost and loss, from cheap to dear.

    >>> points = [Point("a", 0, cost, loss) for cost, loss in ((1, 3.0), (2, 4.0), (3, 1.0), (3, 2.0))]
    >>> [(point.cost, point.loss) for point in best_points(points)]
    [(1, 3.0), (3, 1.0)]
    """
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (each.cost, each.loss)):
        if not math.isnan(point.loss) and (not found or point.loss < found[-1].loss):
            found.append(point)
    return found


def lower_hull(points: Iterable[Point]) -> list[Point]:
    """The corners of the lower convex hull of the best points: what mixing systems at random could not beat."""
    hull: list[Point] = []
    for point in best_points(points):
        while len(hull) >= 2 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def hypervolume(pairs: Iterable[tuple[float, float]], reference: tuple[float, float]) -> float:
    """The area that is dominated by ``(x, y)`` pairs, both to be small, and lies below ``reference``.

    >>> hypervolume([(1.0, 2.0), (2.0, 1.0)], (3.0, 3.0))
    3.0
    """
    area, ceiling = 0.0, reference[1]
    for x, y in sorted(pairs):
        if x < reference[0] and y < ceiling:
            area += (reference[0] - x) * (ceiling - y)
            ceiling = y
    return area


@dataclass(frozen=True)
class Frontier:
    """Points of several methods. ``unit``: what costs are counted in."""

    points: tuple[Point, ...]
    unit: str = ""

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def methods(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(point.method for point in self.points))

    def of(self, method: str) -> list[Point]:
        """The points of one method."""
        return [point for point in self.points if point.method == method]

    def best(self, method: str | None = None) -> list[Point]:
        """The points, of one method or of all, that no other of these beats in both cost and loss."""
        return best_points(self.points if method is None else self.of(method))

    def reference(self) -> tuple[float, float]:
        """The worst corner: the largest cost and the largest loss there are (NaN is none)."""
        losses = [point.loss for point in self.points if not math.isnan(point.loss)]
        return max(point.cost for point in self.points), max(losses, default=math.nan)

    def hypervolume(self, method: str, reference: tuple[float, float] | None = None) -> float:
        """The area between a method's points and ``reference``, cost in powers of ten as the picture has it.

        By default the reference is the worst corner of all methods, so that methods compare.
        """
        cost, loss = reference or self.reference()
        if not cost > 0:
            raise ValueError(f"the reference cost must be positive to be drawn on a logarithmic axis, not {cost}")
        pairs = [(_log(point.cost), point.loss) for point in self.of(method) if not math.isnan(point.loss)]
        return hypervolume(pairs, (_log(cost), loss))

    def to_json(self) -> dict[str, Any]:
        """Points and hypervolumes as plain numbers."""
        areas = {method: self.hypervolume(method) for method in self.methods} if self.points else {}
        return {"unit": self.unit, "points": [point.to_json() for point in self.points], "hypervolume": areas}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Cost (logarithmic) against loss: a curve through each method's best points, all points shown."""
        axes = _new_axes() if ax is None else ax
        for number, method in enumerate(self.methods):
            mine, best = self.of(method), self.best(method)
            marker = MARKERS[number % len(MARKERS)]
            label = f"{method} (area {self.hypervolume(method):.3g})"
            # A method of one point is a ring around whatever else is there, so that neither hides the other.
            ring: dict[str, Any] = (
                {"markersize": 12, "markerfacecolor": "none", "markeredgewidth": 2.0} if len(mine) == 1 else {}
            )
            (line,) = axes.plot([p.cost for p in best], [p.loss for p in best], marker=marker, label=label, **ring)
            if ring:
                continue
            axes.plot([p.cost for p in mine], [p.loss for p in mine], marker, color=line.get_color(), alpha=0.35)
        axes.set_xscale("log")
        axes.set_xlabel(f"{self.unit or 'cost'} an example")
        axes.set_ylabel("loss")
        if self.points:
            axes.legend(frameon=False)
        return axes


def _log(cost: float) -> float:
    """Powers of ten; a cost of 0 counts as a tenth of a unit."""
    return math.log10(max(cost, 0.1))


def _above(first: Point, middle: Point, last: Point) -> bool:
    """Whether the middle point is on or above the line through the others."""
    run, rise = last.cost - first.cost, last.loss - first.loss
    return (middle.loss - first.loss) * run >= rise * (middle.cost - first.cost)


def _new_axes() -> Axes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()
