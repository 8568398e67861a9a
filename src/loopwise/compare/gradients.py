"""All gradient estimators on one model, side by side: which are valid, how far off, how slow, how large.

In: a graph, potentials, a loss, an inference method. Out: a :class:`GradientComparison`, which prints as a table and
plots.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from loopwise.budget.calibration import median_seconds
from loopwise.compare.memory import peak_rise
from loopwise.gradient.base import Gradient
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.solvers import Minres
from loopwise.gradient.unroll import Unroll
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.loss_of_beliefs import (
    Loss,
    LossOfBeliefs,
    RunDifferences,
    Tables,
    ignored_convergence,
    inner,
    random_direction,
    with_gradient,
)
from loopwise.notices import ConvergenceWarning, GradientError, LoopwiseWarning
from loopwise.potentials.checks import checked_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FULL_GRADIENT = 100  # cells up to which every derivative is compared, not some directions
MIB = 2.0**20


@dataclass(frozen=True)
class Row:
    """What one estimator did. Where it is not valid, ``reason`` says why and the figures are NaN or 0."""

    estimator: str
    reason: str | None = None
    error: float = math.nan  # relative to the gradient by differences, in the Euclidean norm
    seconds: float = math.nan  # forward and backward, median
    times_forward: float = math.nan  # the same, in forward passes without a gradient
    peak_bytes: int | None = None  # rise of the process's memory in forward and backward
    iterations: int = 0  # of the backward: adjoint sweeps, solver iterations or further inference calls
    residual: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return self.reason is None


@dataclass(frozen=True)
class GradientComparison:
    """One row an estimator; ``str()`` is a table."""

    rows: tuple[Row, ...]
    status: str  # of the inference call
    reference: str  # what errors are measured against
    forward_seconds: float
    forward_bytes: int | None

    def row(self, estimator: str) -> Row:
        """The row of the estimator with this name."""
        for row in self.rows:
            if row.estimator == estimator:
                return row
        raise ValueError(f"no estimator {estimator!r} was compared; there are {[row.estimator for row in self.rows]}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Error against time, a point for each valid estimator."""
        from loopwise.plot.estimators import gradients

        return gradients(self.rows, axes=ax)

    def __str__(self) -> str:
        lines = self.lines()
        widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
        table = [
            "  ".join(
                [
                    line[0].ljust(widths[0]),
                    *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
                ]
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*self.heading(), "", *table, *self.remarks()])

    def lines(self) -> list[tuple[str, ...]]:
        """The table as text, headings first."""
        return [_HEADINGS, *(_cells(row) for row in self.rows)]

    def remarks(self) -> list[str]:
        """Why an estimator is not valid, and what the others had to say."""
        return [
            f"{row.estimator}: {text}"
            for row in self.rows
            for text in ([row.reason] if row.reason is not None else row.notes)
        ]

    def heading(self) -> list[str]:
        """What was run, what errors mean, and what a forward pass takes."""
        memory = "" if self.forward_bytes is None else f", {self.forward_bytes / MIB:.1f} MiB at its peak"
        return [
            self.status,
            f"errors are relative to {self.reference}",
            f"forward pass: {1e3 * self.forward_seconds:.3g} ms{memory}",
        ]


_HEADINGS = ("estimator", "error", "time / forward", "peak MiB", "iterations", "residual")


def _cells(row: Row) -> tuple[str, ...]:
    if not row.valid:
        return (row.estimator, "not valid", "", "", "", "")
    return (
        row.estimator,
        f"{row.error:.1e}",
        f"{row.times_forward:.2f}",
        "unknown" if row.peak_bytes is None else f"{row.peak_bytes / MIB:.1f}",
        str(row.iterations) if row.iterations else "",
        f"{row.residual:.1e}" if row.residual else "",
    )


def compare_gradients(
    graph: FactorGraph,
    potentials: object,
    loss: Loss,
    inference: Inference,
    evidence: EvidenceLike = None,
    estimators: Sequence[Gradient] | None = None,
    *,
    directions: int = 8,
    repeats: int = 5,
    seed: int = 0,
) -> GradientComparison:
    """Differentiates ``loss(inference(graph, potentials, evidence))`` by every estimator, and measures each.

    ``loss``: a function from :class:`~loopwise.Beliefs` to one number. ``estimators``: those to compare; None takes one
    of each kind and the method's own. Error: against differences of whole runs in float64, for every cell of a model
    with up to 100, along so many random ``directions`` of a larger one. Time: the median of ``repeats`` calls, after
    one that does not count. Memory: see :mod:`loopwise.compare.memory`.

    >>> import loopwise as lw
    >>> graph = lw.grid(3, 3)
    >>> found = compare_gradients(
    ...     graph, lw.TablePotentials.random(graph, seed=0), lambda beliefs: beliefs.states.square().sum(),
    ...     lw.BP(iterations=3, tolerance=0, engine=lw.inference.Reference()), estimators=[lw.Unroll()],
    ... )
    >>> found.row("Unroll").error < 1e-8
    True
    """
    tables = {name: table.detach() for name, table in checked_tables(graph, potentials)[0].items()}
    objective = LossOfBeliefs(inference, graph, loss, evidence)
    differences = RunDifferences(objective, tables)  # also the first to complain about the loss
    if not differences.tables:
        raise ValueError("the graph has no factors, so there is no gradient to compare; give it some")
    truth = _reference(differences, tables, directions, seed)
    with torch.no_grad(), ignored_convergence():
        objective.run(tables)
        forward = median_seconds(lambda: objective.run(tables), repeats)
        memory = peak_rise(lambda: objective.run(tables))
    rows = [
        _measured(label, method, objective, tables, truth, forward, repeats)
        for label, method in _candidates(inference, estimators)
    ]
    return GradientComparison(tuple(rows), str(differences.status), truth.described, forward, memory)


@dataclass(frozen=True)
class _TrueGradient:
    """Derivatives by differences along some directions."""

    directions: tuple[Tables, ...]
    derivatives: tuple[float, ...]
    described: str

    def error_of(self, gradient: Tables) -> float:
        gaps = [inner(gradient, along) - slope for along, slope in zip(self.directions, self.derivatives, strict=True)]
        size = math.hypot(*self.derivatives)
        return math.hypot(*gaps) / size if size > 0 else math.hypot(*gaps)


def _reference(differences: RunDifferences, tables: Tables, count: int, seed: int) -> _TrueGradient:
    cells = sum(int((~torch.isneginf(table)).sum()) for table in tables.values())
    if cells <= FULL_GRADIENT:
        directions, which = tuple(_units(differences.tables)), "the gradient by differences of whole runs"
    else:
        generator = torch.Generator().manual_seed(seed)
        directions = tuple(random_direction(differences.tables, generator) for _ in range(count))
        which = f"differences of whole runs along {count} random directions"
    found = [differences.along(direction) for direction in directions]
    size = math.hypot(*(slope for slope, _ in found))
    noise = math.hypot(*(error for _, error in found)) / size if size > 0 else 0.0
    return _TrueGradient(directions, tuple(slope for slope, _ in found), f"{which} (good to about {noise:.0e})")


def _units(tables: Tables) -> Iterator[Tables]:
    for name, table in tables.items():
        for place in (~torch.isneginf(table)).nonzero().tolist():
            unit = {other: torch.zeros_like(values) for other, values in tables.items()}
            unit[name][tuple(place)] = 1.0
            yield unit


def _candidates(
    inference: Inference, estimators: Sequence[Gradient] | None
) -> Iterator[tuple[str, Callable[[], Inference]]]:
    """Names of the estimators and how to get the method that uses each, which may fail."""
    own: Gradient | None = getattr(inference, "gradient", None)
    if estimators is None and own is None:
        yield f"{type(inference).__name__}'s own", lambda: inference
        return
    for estimator in _one_of_each(own) if estimators is None else estimators:
        yield _label(estimator), lambda chosen=estimator: with_gradient(inference, chosen)  # type: ignore[misc]


def _one_of_each(own: Gradient | None) -> list[Gradient]:
    """The method's own estimator first, with its options; then the other kinds as they come."""
    kinds: list[Gradient] = [
        Unroll(), FixedPoint(), OneStep(), Perturbation(), LinearSolve(), LinearSolve(solver=Minres()),
    ]  # fmt: skip
    if own is None:
        return kinds
    others = [kind for kind in kinds if type(kind) is not type(own) or isinstance(own, LinearSolve)]
    return [own, *(kind for kind in others if kind != own)]


def _label(option: object) -> str:
    """The class and those options that are not as usual, options being labelled the same way."""
    if not is_dataclass(option) or isinstance(option, type):
        return repr(option)
    name, changed = type(option).__name__, []
    for entry in fields(option):
        value = getattr(option, entry.name)
        usual = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        if value != usual:
            changed.append(f"{entry.name}={_label(value)}")
    return f"{name}({', '.join(changed)})" if changed else name


def _measured(
    label: str,
    method: Callable[[], Inference],
    objective: LossOfBeliefs,
    tables: Tables,
    truth: _TrueGradient,
    forward: float,
    repeats: int,
) -> Row:
    try:
        chosen = replace(objective, inference=method())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", LoopwiseWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)  # the forward pass has said so
            gradient, report = chosen.gradient(tables)
    except GradientError as problem:
        return Row(label, reason=str(problem))
    bad = _first_bad(gradient)
    if bad is not None:
        return Row(label, reason=f"its gradient for group {bad!r} holds NaN or infinity")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopwiseWarning)  # told once
        seconds = median_seconds(lambda: chosen.gradient(tables), repeats)
        memory = peak_rise(lambda: chosen.gradient(tables))
    reported = report.notes if report else []
    notes = [str(warning.message) for warning in told if issubclass(warning.category, LoopwiseWarning)]
    notes = [text for text in notes if not any(note in text for note in reported)]  # said in the report already
    return Row(
        label,
        error=truth.error_of(gradient),
        seconds=seconds,
        times_forward=seconds / forward,
        peak_bytes=memory,
        iterations=report.iterations if report else 0,
        residual=report.residual if report else 0.0,
        notes=tuple(dict.fromkeys([*reported, *notes])),
    )


def _first_bad(gradient: dict[str, Tensor]) -> str | None:
    return next((name for name, part in gradient.items() if not bool(torch.isfinite(part).all())), None)
