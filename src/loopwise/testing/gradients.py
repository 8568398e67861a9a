"""Is the backward of an inference method the derivative of its forward?

In: an inference method and a model. Out: how far its gradient (or Hessian-vector product) is from differences of whole
runs, or an AssertionError that names the worst table cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.differences import derivative
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.marginals import MarginalGradient
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.loss_of_beliefs import (
    Loss,
    LossOfBeliefs,
    RunDifferences,
    Tables,
    first_step,
    ignored_convergence,
    inner,
    moved,
    random_direction,
)
from loopwise.potentials.checks import checked_tables

# An implicit gradient is that of the fixed point, so it is checked on a run that got there.
CONVERGED, SWEEPS = 1e-12, 10_000
# A group whose derivatives are this much smaller than the largest is measured against the largest instead.
NEGLIGIBLE = 1e-3
CHANCE = 100.0  # a projection this much smaller than the norm comes up once in a hundred draws
ROUNDING = 1e-12  # of the loss, where there is no derivative to compare with


@dataclass(frozen=True)
class GradientCheck:
    """How far a backward was from differences: ``error`` is the largest of ``groups``, each relative to its norm."""

    error: float
    groups: Mapping[str, float]
    worst: str  # the group with the largest error
    noise: float  # the differences' estimate of their own relative error


def check_gradient(
    inference: Inference,
    graph: FactorGraph,
    potentials: object,
    loss: Loss | None = None,
    evidence: EvidenceLike = None,
    *,
    tolerance: float = 1e-7,
    directions: int = 1,
    seed: int = 0,
) -> GradientCheck:
    """Compares the backward of ``inference`` with differences of its forward, in float64, group by group.

    ``loss`` None takes a random smooth one of variable beliefs, factor beliefs of every group and log-partition. A
    truncated run keeps its number of sweeps; a method with an implicit estimator is first made to converge (tolerance
    1e-12). For each group ``directions`` random directions are tried, about 12 runs each. An AssertionError names the
    worst table cell if any relative error is above ``tolerance``.

    >>> import loopwise as lw
    >>> from loopwise.testing import check_gradient
    >>> graph = lw.grid(3, 3, states=3)
    >>> method = lw.BP(iterations=4, tolerance=0, engine=lw.inference.Reference())
    >>> check_gradient(method, graph, lw.TablePotentials.random(graph, seed=0)).error < 1e-7
    True
    """
    tables = _leaves(graph, potentials)
    objective = LossOfBeliefs(_converging(inference), graph, loss or random_loss(graph, seed), evidence)
    with ignored_convergence():
        gradient, _ = objective.gradient(tables)
    _check_finite(graph, gradient, tables)
    differences = RunDifferences(objective, tables)
    generator = torch.Generator().manual_seed(seed)
    tried = [
        (name, direction, *differences.along(direction))
        for name in gradient
        for direction in (_only(random_direction(tables, generator), name) for _ in range(directions))
    ]
    total = math.hypot(*(expected for _, _, expected, _ in tried))
    least = max(NEGLIGIBLE * total, ROUNDING * (1 + abs(differences.value)) / tolerance)
    errors, noise = dict.fromkeys(gradient, 0.0), 0.0
    worst: tuple[float, str, Tables] = (-1.0, "", {})
    for name, direction, expected, uncertainty in tried:
        scale = max(_scale(gradient[name], tables[name], expected), least)
        error = _distance(inner(gradient, direction), expected) / scale
        errors[name], noise = max(errors[name], error), max(noise, uncertainty / scale)
        worst = max(worst, (error, name, direction), key=lambda found: found[0])
    result = GradientCheck(max(worst[0], 0.0), errors, worst[1], noise)
    if not result.error <= tolerance:
        raise AssertionError(_complaint(objective, differences, gradient, worst[2], result, tolerance))
    return result


def check_hvp(
    inference: Inference,
    graph: FactorGraph,
    potentials: object,
    loss: Loss | None = None,
    evidence: EvidenceLike = None,
    *,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> float:
    """Hessian-vector products by the twice differentiated backward: symmetric, and equal to differences of gradients.

    Returns the larger of both relative errors; an AssertionError says which is above ``tolerance``.
    """
    tables = _leaves(graph, potentials)
    objective = RunDifferences(
        LossOfBeliefs(_converging(inference), graph, loss or random_loss(graph, seed), evidence), tables
    ).objective
    generator = torch.Generator().manual_seed(seed)
    left, right = random_direction(tables, generator), random_direction(tables, generator)
    with ignored_convergence():
        product = objective.hessian_product(tables, right)
        _check_finite(graph, product, tables)
        forth, back = inner(product, left), inner(objective.hessian_product(tables, left), right)
        expected, _ = derivative(
            lambda step: inner(objective.gradient(moved(tables, right, step))[0], left), first_step(right)
        )
    together = torch.cat([part.reshape(-1) for part in product.values()])
    scale = max(_scale(together, torch.cat([table.reshape(-1) for table in tables.values()]), expected), ROUNDING)
    asymmetry, error = _distance(forth, back) / scale, _distance(forth, expected) / scale
    name = type(inference).__name__
    if not asymmetry <= tolerance:
        raise AssertionError(f"the Hessian of {name} is not symmetric: u'Hv = {forth:.10g}, v'Hu = {back:.10g}")
    if not error <= tolerance:
        raise AssertionError(
            f"the Hessian-vector product of {name} is off by {error:.2g} (tolerance {tolerance:.2g}): u'Hv = "
            f"{forth:.10g}, differences of gradients say {expected:.10g}"
        )
    return max(asymmetry, error)


def random_loss(graph: FactorGraph, seed: int) -> Loss:
    """A smooth loss with a random derivative for every belief there is and for the log-partition function."""

    def loss(beliefs: Beliefs) -> Tensor:
        generator = torch.Generator().manual_seed(seed + 1)

        def weighed(values: Tensor) -> Tensor:
            weights = torch.randn(2, *values.shape, generator=generator, dtype=torch.float64).to(values.device)
            return (weights[0] * values + weights[1] * values**2).sum()

        parts = [weighed(beliefs.states), weighed(beliefs.log_partition / (1 + graph.variables))]
        return torch.stack([*parts, *(weighed(beliefs.factor(group.name)) for group in graph.groups)]).sum()

    return loss


def _leaves(graph: FactorGraph, potentials: object) -> Tables:
    return {name: table.detach().double() for name, table in checked_tables(graph, potentials)[0].items()}


def _converging(inference: Inference) -> Inference:
    """An implicit estimator is valid at a fixed point only: enough sweeps to get there."""
    method: Any = inference
    implicit = isinstance(getattr(method, "gradient", None), (FixedPoint, OneStep, MarginalGradient))
    names = {entry.name for entry in fields(method)} if is_dataclass(method) else set()
    if not implicit or not {"iterations", "tolerance"} <= names:
        return inference
    tight: Inference = replace(
        method, iterations=max(method.iterations, SWEEPS), tolerance=min(method.tolerance or CONVERGED, CONVERGED)
    )
    return tight


def _scale(part: Tensor, table: Tensor, expected: float) -> float:
    """What an error along a random direction is relative to: the norm of the derivatives.

    Differences know it from one projection only, which may be small by chance; the backward's own norm steadies that,
    but only up to a point, since it is what is being checked: were it infinite, any error would look like none.
    """
    own = float(torch.where(torch.isneginf(table), 0.0, part).norm())
    return max(abs(expected), min(own, CHANCE * abs(expected)))


def _distance(found: float, expected: float) -> float:
    """Infinite where either is NaN, so that no comparison passes by default."""
    gap = abs(found - expected)
    return math.inf if math.isnan(gap) else gap


def _only(direction: Tables, name: str) -> Tables:
    return {other: part if other == name else torch.zeros_like(part) for other, part in direction.items()}


def _check_finite(graph: FactorGraph, gradient: Tables, tables: Tables) -> None:
    for name, part in gradient.items():
        bad = (~torch.isfinite(part)).nonzero()
        if len(bad):
            place = tuple(bad[0].tolist())
            value = float(tables[name][place])
            raise AssertionError(
                f"the gradient is {float(part[place])} at {_cell(graph, name, place)}, whose log-potential is {value}"
            )


def _cell(graph: FactorGraph, name: str, place: tuple[int, ...]) -> str:
    group = graph.group(name)
    axis = len(place) - group.arity - 1
    row = place[axis]
    example = f" in example {place[:axis]}" if axis else ""
    return (
        f"factor {row} of group {name!r} (variables {group.scopes[row].tolist()}), cell {list(place[axis + 1 :])}"
        f"{example}"
    )


def _complaint(
    objective: LossOfBeliefs,
    differences: RunDifferences,
    gradient: Tables,
    direction: Tables,
    result: GradientCheck,
    tolerance: float,
) -> str:
    """Halves the cells of the failing direction until the worst one is left."""
    name = result.worst
    cells = direction[name].reshape(-1).nonzero().reshape(-1)
    while len(cells) > 1:
        halves = cells[: len(cells) // 2], cells[len(cells) // 2 :]
        gaps = [_gap(differences, gradient, direction, name, half) for half in halves]
        cells = halves[0] if gaps[0] >= gaps[1] else halves[1]
    place = tuple(int(index) for index in np.unravel_index(int(cells[0]), direction[name].shape))
    unit = {other: torch.zeros_like(part) for other, part in direction.items()}
    unit[name][place] = 1.0
    estimator = getattr(objective.inference, "gradient", None)
    by = f" by {type(estimator).__name__}" if estimator is not None else ""
    return (
        f"the gradient of {type(objective.inference).__name__}{by} is off by {result.error:.2g} (tolerance "
        f"{tolerance:.2g}; the differences themselves by about {result.noise:.1g}), worst at "
        f"{_cell(objective.graph, name, place)}: the backward says {float(gradient[name][place]):.10g}, differences "
        f"say {differences.along(unit)[0]:.10g}"
    )


def _gap(differences: RunDifferences, gradient: Tables, direction: Tables, name: str, cells: Tensor) -> float:
    kept = torch.zeros(direction[name].numel(), dtype=torch.bool)
    kept[cells] = True
    part = _only(direction, name)
    part[name] = torch.where(kept.reshape(direction[name].shape), direction[name], 0.0)
    return _distance(inner(gradient, part), differences.along(part)[0])
