"""The numbers of the cost-aware study: curves averaged over truths, and losses at equal cost.

In: points of finished jobs. Out: cells of :class:`Results`, and :class:`MeanPoint` curves for the pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loopwise.budget.frontier import Point, hypervolume, lower_hull
from studies.cost_aware.protocol import (
    BOTH,
    DENSE,
    ERM,
    FIGURE1,
    FIXED,
    GATE_CURVES,
    GATES,
    LEARNED,
    LIKELIHOOD,
    SPARSE,
    STOPPING,
    STRONG,
    SWEEPS,
    TOGETHER,
    TOLERANCE,
    CostAwareProtocol,
    CurveJob,
)
from studies.cost_aware.training import Points, read_points
from studies.harness.results import Cell
from studies.harness.statistics import mean_and_error

ITEMS = {
    FIGURE1: "Figure 1",
    STRONG: "Figure 1, strong truth",
    SWEEPS: "How many sweeps suffice",
    STOPPING: "Learned stopping",
    BOTH: "Stopping and sparsity together",
    GATES: "Gates on messages and by evidence",
}
AREA = ", hypervolume"
EQUAL = ", at equal cost"
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)  # of the dense model's messages, where curves are compared
COST = {FIGURE1: "messages", STRONG: "messages", SWEEPS: "setting", STOPPING: "sweeps", BOTH: "sent", GATES: "sent"}
TIME = "microseconds"
PER_MESSAGE = ", time of a message"
CALL, MESSAGE = "a call, µs an example", "a message, ns"


@dataclass(frozen=True)
class CostAwareRuns:
    """Where finished jobs are."""

    folder: Path
    protocol: CostAwareProtocol

    def points(self, study: str, curve: str) -> dict[int, Points]:
        """The points of each truth that has any."""
        found = {}
        for truth in range(self.protocol.truths):
            points = read_points(CurveJob(study, truth, curve), self.folder)
            if points is not None:
                found[truth] = points
        return found

    def curves(self, study: str) -> tuple[str, ...]:
        """The names of a study's curves, in order."""
        return {
            FIGURE1: self.protocol.curves,
            STRONG: self.protocol.strong_curves,
            SWEEPS: (ERM, LIKELIHOOD),
            STOPPING: (FIXED, TOLERANCE, LEARNED),
            BOTH: (FIXED, SPARSE, LEARNED, TOGETHER),
            GATES: GATE_CURVES,
        }[study]


@dataclass(frozen=True)
class MeanPoint:
    """One setting of a curve, averaged over truths."""

    setting: float
    cost: float
    loss: float
    error: float | None
    n: int


def averaged(study: CostAwareRuns, name: str, curve: str) -> list[MeanPoint]:
    """A curve setting by setting; those settings that all of its truths have."""
    runs = list(study.points(name, curve).values())
    found = []
    for place in range(min((len(points) for points in runs), default=0)):
        rows = [points[place] for points in runs]
        loss, error = mean_and_error([row["loss"] for row in rows])
        cost = sum(row[COST[name]] for row in rows) / len(rows)
        found.append(MeanPoint(rows[0]["setting"], cost, loss, error, len(rows)))
    return found


def interpolated(points: Points, cost: float, key: str) -> float:
    """The loss of a mixture of a curve's best systems with this mean cost; infinite if all of them are dearer.

    Beyond the dearest it stays: nobody has to spend all there is.
    """
    best = lower_hull(Point("", 0.0, row[key], row["loss"]) for row in points)
    if not best or cost < best[0].cost:
        return math.inf
    return float(np.interp(cost, [point.cost for point in best], [point.loss for point in best]))


def at_equal_cost(study: CostAwareRuns, name: str, curve: str, costs: Sequence[float]) -> dict[int, list[float]]:
    """Losses of each truth at each of ``costs``."""
    found = study.points(name, curve).items()
    return {truth: [interpolated(points, cost, COST[name]) for cost in costs] for truth, points in found}


def items_of(study: str) -> tuple[str, ...]:
    """The items that one of the studies may have."""
    return ITEMS[study], ITEMS[study] + EQUAL, ITEMS[study] + AREA, ITEMS[study] + PER_MESSAGE


def cells(study: CostAwareRuns) -> Iterator[Cell]:
    """All numbers there are so far."""
    for name, item in ITEMS.items():
        for curve in study.curves(name):
            for mean in averaged(study, name, curve):
                column = f"{mean.setting:.3g}"
                yield Cell(item, curve, column, mean.loss, mean.error, mean.n, more=_more(study, name, curve, mean))
    for name in (FIGURE1, STRONG):
        yield from _dense_cell(study, name)
        yield from _equal(study, name)
    for name in (FIGURE1, STRONG, STOPPING, BOTH, GATES):
        yield from _areas(study, name)
    yield from _areas(study, GATES, TIME)
    yield from _prices_of_messages(study)


def _more(study: CostAwareRuns, name: str, curve: str, mean: MeanPoint) -> dict[str, Any]:
    """What else is known at one setting: means over truths."""
    rows = [row for points in study.points(name, curve).values() for row in points if row["setting"] == mean.setting]
    keys = [key for key in rows[0] if key not in ("setting", "loss")]
    found = {key: float(f"{sum(row[key] for row in rows) / len(rows):.5g}") for key in keys}
    return {"unit": "MSE", **found}


def _dense_cell(study: CostAwareRuns, name: str) -> Iterator[Cell]:
    for mean in averaged(study, name, DENSE):
        more = _more(study, name, DENSE, mean)
        yield Cell(ITEMS[name], DENSE, "0", mean.loss, mean.error, mean.n, more=more)


def _equal(study: CostAwareRuns, name: str) -> Iterator[Cell]:
    """Figure 1 at equal numbers of messages."""
    whole = dense_messages(study)
    for curve in study.curves(name):
        rows = list(at_equal_cost(study, name, curve, [share * whole for share in SHARES]).values())
        for place, share in enumerate(SHARES):
            known = [row[place] for row in rows if math.isfinite(row[place])]
            if known and len(known) == len(rows):
                loss, error = mean_and_error(known)
                yield Cell(ITEMS[name] + EQUAL, curve, f"{share:.0%}", loss, error, len(known))


def dense_messages(study: CostAwareRuns) -> float:
    """Messages of a sweep of the dense model of Figure 1."""
    variables = study.protocol.synthetic.variables
    return float(variables * (variables - 1))


def _areas(study: CostAwareRuns, name: str, key: str = "") -> Iterator[Cell]:
    curves = study.curves(name)
    for curve in curves:
        values = list(areas(study, name, curve, key).values())
        if values:
            mean, error = mean_and_error(values)
            column = "area by time" if key == TIME else "area"
            yield Cell(ITEMS[name] + AREA, curve, column, mean, error, len(values))


def areas(study: CostAwareRuns, name: str, curve: str, key: str = "") -> dict[int, float]:
    """For each truth the area between a curve and the worst corner of all curves, cost in powers of ten; ``key``: what
    of the points is the cost, if not that of the study."""
    key = key or COST[name]
    everything = {other: study.points(name, other) for other in study.curves(name)}
    found: dict[int, float] = {}
    for truth, points in everything[curve].items():
        rows = [row for other in everything.values() for row in other.get(truth, [])]
        corner = (_log(max(row[key] for row in rows)), max(row["loss"] for row in rows))
        found[truth] = hypervolume([(_log(row[key]), row["loss"]) for row in points], corner)
    return found


def _prices_of_messages(study: CostAwareRuns) -> Iterator[Cell]:
    """Measured time as a line in the messages that were sent, least squares over each truth's settings."""
    for curve in study.curves(GATES):
        lines = [
            np.polyfit([row[COST[GATES]] for row in points], [row[TIME] for row in points], 1)
            for points in study.points(GATES, curve).values()
            if len(points) > 1
        ]
        if lines:
            nanoseconds, call = ([line[place] for line in lines] for place in (0, 1))
            for column, values in ((CALL, call), (MESSAGE, [1000 * each for each in nanoseconds])):
                yield Cell(ITEMS[GATES] + PER_MESSAGE, curve, column, *mean_and_error(values), len(lines))


def _log(cost: float) -> float:
    return math.log10(max(cost, 1.0))
