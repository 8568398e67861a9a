r"""Figure 2 of Domke 2010: what each gradient costs as grids grow and as interactions get stronger.

In: a :class:`GradientProtocol`. Out: cells of :class:`Results`, one an estimator and a column, each holding a sample a
seed.

Grids with 5 values a variable, :math:`\theta(x_i)\sim U[-1, 1]`, :math:`\theta(x_i, x_j)\sim U[-a, a]`; the loss is the
univariate likelihood of a random labelling. Panels: Bethe or TRW (:math:`\rho = .49`), against the size at a = 1 or
against a at one size (Domke spec, section 8.1). The paper prints curves, not numbers: nothing is published to put
beside a cell, so the shapes of its curves are stated as claims (:mod:`studies.domke.gradients.claims`).
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.compare.losses import random_labelling, univariate_likelihood
from loopwise.demo.workers import one_thread
from loopwise.gradient.base import Gradient
from loopwise.gradient.fixed_point import FixedPoint
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.perturbation import EqualSweeps, Perturbation
from loopwise.gradient.solvers import Minres
from loopwise.gradient.unroll import Unroll
from loopwise.graph.builders import grid
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP, TRW, Engine, MessagePassing
from loopwise.inference.messages.schedules import Sequential
from loopwise.notices import GradientError, LoopwiseWarning
from studies.harness.queue import Tell
from studies.harness.results import FULL, QUICK, Cell, Deadline, Results

STATES = 5
RHO = 0.49  # at .5 the corners of a grid have a counting number of 0
TOLERANCE, ADJOINT_TOLERANCE = 1e-5, 1e-4  # published: of inference, and of back-BP
SWEEPS = 1000
TIGHT = 1e-10  # of the run whose gradient accuracy is measured against
SHORT, LONG = 2.0, 30.0  # seconds: calls are repeated until the first sum; a first call of the second counts itself
INFERENCE, DIRECT, WARM = "inference", "direct", "perturbation, warm start"
ESTIMATORS: dict[str, Gradient] = {
    "perturbation": Perturbation(),
    WARM: Perturbation(stopping=EqualSweeps(warm=True)),
    "back-BP": FixedPoint(tolerance=ADJOINT_TOLERANCE),
    "unroll": Unroll(),
    DIRECT: LinearSolve(),
    "MINRES": LinearSolve(solver=Minres()),
}
ENTROPIES = ("Bethe", "TRW")


@dataclass(frozen=True)
class GradientProtocol:
    """How much of the figure to run."""

    sizes: tuple[int, ...]
    strengths: tuple[float, ...]
    side: int  # of the grids with varying strength
    seeds: int
    direct_limit: int = 64  # the side of the largest grid for the direct solver
    engine: Engine = field(default_factory=lambda: Compiled(threads=1))


PROTOCOLS = {
    FULL: GradientProtocol(sizes=(8, 16, 32, 64, 128), strengths=(0.5, 1.0, 1.5, 2.0, 2.5, 3.0), side=32, seeds=5),
    QUICK: GradientProtocol(sizes=(8, 16, 32), strengths=(0.5, 1.0, 2.0, 3.0), side=16, seeds=2),
}


@dataclass(frozen=True)
class GridProblem:
    """One grid to be measured; ``item`` and ``column`` say where its numbers go."""

    item: str
    column: str
    entropy: str
    side: int
    strength: float
    seed: int


@dataclass(frozen=True)
class Measurement:
    """What one estimator did on one problem."""

    seconds: float | None  # of the backward alone (of inference: the forward alone)
    total: float | None = None  # forward and backward
    error: float | None = None
    iterations: int = 0
    reason: str | None = None  # why there is nothing else


def item_name(entropy: str, against: str) -> str:
    """What the results call a panel."""
    return f"Figure 2, {entropy} against {against}"


def problems(protocol: GradientProtocol, seed: int) -> Iterator[GridProblem]:
    """Small grids first, so that a run that is cut short has something in every panel."""
    for number in range(protocol.seeds):
        for strength in protocol.strengths:
            for entropy in ENTROPIES:
                item = item_name(entropy, "strength")
                yield GridProblem(item, f"{strength:g}", entropy, protocol.side, strength, seed + number)
    for side in protocol.sizes:
        for number in range(protocol.seeds):
            for entropy in ENTROPIES:
                yield GridProblem(item_name(entropy, "size"), f"{side}x{side}", entropy, side, 1.0, seed + number)


def run_figure2(results: Results, protocol: GradientProtocol, deadline: Deadline, tell: Tell) -> tuple[int, int]:
    """Measures what is not in ``results`` yet, saving each; how many of how many problems are finished. Times stand
    beside each other, so a problem of which a row is missing is measured whole."""
    rows = (INFERENCE, *ESTIMATORS)
    todo, finished = list(problems(protocol, results.seed)), 0
    for problem in todo:
        missing = not all(_has(results, problem, row) for row in rows)
        if missing and deadline.passed:
            continue
        finished += 1
        tell(f"{problem.item}: {problem.column}, seed {problem.seed}", finished)
        if missing:
            with one_thread():
                for row, found in _measured(problem, protocol, rows):
                    _add(results, problem, row, found)
    return finished, len(todo)


def _has(results: Results, problem: GridProblem, row: str) -> bool:
    cell = results.find(problem.item, row, problem.column)
    return cell is not None and any(sample["seed"] == problem.seed for sample in cell.more["samples"])


def _add(results: Results, problem: GridProblem, row: str, found: Measurement) -> None:
    """Puts a sample to those of other seeds, in place of an older one; the cell's number is their mean."""
    old = results.find(problem.item, row, problem.column)
    sample: dict[str, Any] = {"seed": problem.seed, **_rounded(found)}
    others = [entry for entry in (old.more["samples"] if old else []) if entry["seed"] != problem.seed]
    samples = sorted([*others, sample], key=lambda entry: int(entry["seed"]))
    times = [entry["seconds"] for entry in samples if entry.get("seconds") is not None]
    errors = [entry["error"] for entry in samples if entry.get("error") is not None]
    results.put(
        Cell(
            problem.item,
            row,
            problem.column,
            ours=statistics.fmean(times) if times else None,
            stderr=statistics.stdev(times) / len(times) ** 0.5 if len(times) > 1 else None,
            n=len(times),
            more={
                "unit": "seconds",
                "error": statistics.median(errors) if errors else None,
                "samples": samples,
            },
        )
    )


def _rounded(found: Measurement) -> dict[str, Any]:
    """Four digits are more than a timing has; what there is none of is left out."""
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in vars(found).items()
        if value is not None
    }


def random_grid(side: int, strength: float, seed: int) -> tuple[FactorGraph, dict[str, Tensor], Integers]:
    """A graph, its log-potentials and a labelling; the same seed gives the same grid at every strength, but scaled."""
    graph, rng = grid(side, side, STATES), np.random.default_rng(seed)
    unary = rng.uniform(-1, 1, (graph.group("unary").count, STATES))
    pair = strength * rng.uniform(-1, 1, (graph.group("pair").count, STATES, STATES))
    tables = {"unary": torch.tensor(unary), "pair": torch.tensor(pair)}
    return graph, tables, random_labelling(graph, seed)


def method_of(entropy: str, gradient: Gradient, tolerance: float, engine: Engine) -> MessagePassing:
    """Sequential message passing to ``tolerance`` with that gradient."""
    options: dict[str, Any] = {"rho": RHO} if entropy == "TRW" else {}
    kind: type[MessagePassing] = TRW if entropy == "TRW" else BP
    return kind(
        iterations=SWEEPS, tolerance=tolerance, schedule=Sequential(), engine=engine, gradient=gradient, **options
    )


def _measured(
    problem: GridProblem, protocol: GradientProtocol, rows: Sequence[str]
) -> Iterator[tuple[str, Measurement]]:
    graph, tables, labels = random_grid(problem.side, problem.strength, problem.seed)
    small = problem.side <= protocol.direct_limit

    def method(gradient: Gradient, tolerance: float = TOLERANCE) -> MessagePassing:
        return method_of(problem.entropy, gradient, tolerance, protocol.engine)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopwiseWarning)  # the samples say what did not converge
        seconds, beliefs = _timed(lambda: method(Unroll())(graph, tables))
        sweeps = int(beliefs.status.sweeps)
        if not beliefs.status.converged:
            yield from ((row, Measurement(None, reason=f"no convergence in {sweeps} sweeps")) for row in rows)
            return
        estimators = [row for row in rows if row != INFERENCE]
        if INFERENCE in rows:
            yield INFERENCE, Measurement(seconds, iterations=sweeps)
        exact = LinearSolve() if small else FixedPoint(tolerance=TIGHT)
        truth = _gradient(method(exact, TIGHT), graph, tables, labels) if estimators else None
        for row in estimators:
            if row == DIRECT and not small:
                yield row, Measurement(None, reason=f"only run to {protocol.direct_limit}x{protocol.direct_limit}")
            else:
                yield row, _estimator(method(ESTIMATORS[row]), graph, tables, labels, truth)


def _estimator(
    method: MessagePassing, graph: FactorGraph, tables: dict[str, Tensor], labels: Integers, truth: Tensor | None
) -> Measurement:
    backward: list[float] = []

    def once() -> tuple[Tensor, Beliefs]:
        leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
        beliefs = method(graph, leaves)
        loss = univariate_likelihood(beliefs, labels)
        start = time.process_time()  # of the processor: others may use the machine too
        found = torch.autograd.grad(loss, list(leaves.values()))
        backward.append(time.process_time() - start)
        return torch.cat([part.reshape(-1) for part in found]), beliefs

    try:
        total, (gradient, beliefs) = _timed(once)
    except GradientError as problem:
        return Measurement(None, reason=str(problem))
    error = None if truth is None else float((gradient - truth).norm() / truth.norm())
    kept = backward[1:] or backward
    report = beliefs.gradient
    return Measurement(statistics.median(kept), total, error, report.iterations if report else 0)


def _gradient(method: MessagePassing, graph: FactorGraph, tables: dict[str, Tensor], labels: Integers) -> Tensor | None:
    """The gradient that accuracy is measured against; None where there is none."""
    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    try:
        found = torch.autograd.grad(univariate_likelihood(method(graph, leaves), labels), list(leaves.values()))
    except GradientError:
        return None
    return torch.cat([part.reshape(-1) for part in found])


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Median seconds of up to 7 calls, and a result; a first call may compile: it only counts if it is long."""
    taken, result = [], None
    for _ in range(8):
        start = time.process_time()  # of the processor: others may use the machine too
        result = function()
        taken.append(time.process_time() - start)
        if taken[0] > LONG or sum(taken[1:]) > SHORT:
            break
    return statistics.median(taken[1:] or taken), result
