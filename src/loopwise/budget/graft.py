r"""Grafting: factors added one handful after another, each for what it is likely to save and what it takes to run.

In: a system, candidate factors, data. Out: a :class:`Grafted` system on a larger graph, and the curve of loss against
factors and cost. Stage: budget.

A candidate begins with a table of zeros, which changes no belief. One backward through inference on the graph with all
candidates gives the gradient :math:`g_\alpha` of the loss by each of these tables (for a likelihood the factor's belief
less its frequency; Perkins, Lacker & Theiler 2003), and with it how much a candidate would save,

.. math:: \Delta_\alpha \approx \frac12\sum_{x_\alpha}\Big(\frac{g_\alpha(x_\alpha)^2}{h_\alpha(x_\alpha)}
          - \frac{1}{n}\Big) - \lambda\,c_\alpha

(:math:`h`: the curvature, which is the variance of an example's gradient, seen in how parts of the data differ;
:math:`1/n`: what a cell of no use saves by chance; :math:`c`: what the factor costs in one run).
The best are added, all weights trained on, and development loss plus price decides whether they stay.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.arguments import checked_whole
from loopwise.budget.cost import CellCost, Cost
from loopwise.budget.pruning import needs_no_input, on_graph
from loopwise.graph.factor_graph import FactorGraph
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import Goal, evaluate, risk
from loopwise.learn.fit import fit
from loopwise.learn.system import System
from loopwise.potentials.tables import TablePotentials

Floats = NDArray[np.float64]
Scope = tuple[int, ...]
Refit = Callable[[System, Examples], object]

PARTS = 16  # of the data, whose gradients are compared
LEAST_CURVATURE = 0.1  # of the gradient's size


@dataclass(frozen=True)
class GraftStep:
    """One handful of factors: what was added, and where that led. ``kept`` False: it was taken back."""

    added: tuple[Scope, ...]
    factors: int
    cost: float
    loss: float
    seconds: float
    kept: bool


class Host(Protocol):
    """What factors are grafted on: a system, or a learner of its own."""

    def gains(self, candidates: Sequence[Scope]) -> Floats:
        """About how much each candidate would take off the loss, from one pass over the data."""
        ...

    def cost(self, scope: Scope) -> float:
        """What a factor takes in one run."""
        ...

    def grow(self, added: Sequence[Scope]) -> float:
        """Adds factors, trains all weights on, and gives the development loss."""
        ...

    def noise(self) -> float:
        """How much of what the last :meth:`grow` saved may be chance; 0: no more is asked than that it saved."""
        ...

    def undo(self) -> None:
        """Takes the last :meth:`grow` back."""
        ...


def graft_on(
    host: Host,
    candidates: Sequence[Scope],
    loss: float,
    *,
    price: float = 0.0,
    at_once: int = 1,
    rounds: int = 20,
    cost: float = 0.0,
) -> list[GraftStep]:
    """Adds candidates to a host while its development ``loss`` plus ``price`` times cost falls; the steps taken.

    A handful that does not pay is taken back; then the best half of it is tried, down to a single factor.
    """
    began, left, steps = time.perf_counter(), list(dict.fromkeys(candidates)), list[GraftStep]()
    factors, handful = 0, at_once
    for _ in range(rounds):
        if not left or handful < 1:
            break
        prices = price * np.array([host.cost(scope) for scope in left])
        saved = host.gains(left) - prices
        best = [place for place in np.argsort(-saved)[:handful].tolist() if saved[place] > 0]
        if not best:
            break
        chosen = tuple(left[place] for place in best)
        extra = sum(host.cost(scope) for scope in chosen)
        found = host.grow(chosen)
        kept = found + price * extra + host.noise() < loss
        if kept:
            loss, cost, factors = found, cost + extra, factors + len(chosen)
            left = [scope for scope in left if scope not in chosen]
        else:
            host.undo()
            handful = len(chosen) // 2
        steps.append(GraftStep(chosen, factors, cost, found, time.perf_counter() - began, kept))
    return steps


def expected_gain(parts: Floats, weights: Floats, rows: int) -> Floats:
    """About what each cell of tables of zeros saves, less what chance does; add up the cells of a factor.

    ``parts`` ``[parts, cells]`` are gradients of the mean loss over parts of the data that hold ``weights`` of the
    ``rows``: how much they differ says how much of their mean is chance.

    >>> steady, noise = np.array([[0.2], [0.21], [0.19]]), np.array([[0.2], [-0.2], [0.01]])
    >>> [float(expected_gain(parts, np.ones(3) / 3, 300).sum().round(3)) for parts in (steady, noise)]
    [0.665, -0.002]
    """
    share = weights / weights.sum()
    mean = share @ parts
    variance = (share**2) @ (parts - mean) ** 2 * len(parts) / max(len(parts) - 1, 1)  # of the mean
    curvature = rows * variance + np.abs(mean) * LEAST_CURVATURE + 1.0 / rows**2
    found: Floats = 0.5 * (mean**2 / curvature - (mean != 0) / rows)
    return found


@dataclass(frozen=True, eq=False)
class Grafted:
    """The system that grafting ended with, and its steps."""

    system: System
    steps: tuple[GraftStep, ...]
    loss: float  # on development data


def graft(
    system: System,
    examples: Examples,
    goal: Goal,
    candidates: Sequence[Sequence[int]] | None = None,
    *,
    dev: Examples,
    price: float = 0.0,
    cost: Cost | None = None,
    at_once: int = 1,
    rounds: int = 20,
    refit: Refit | None = None,
) -> Grafted:
    """Adds factors to a system of tables, each for what it saves and takes, until development loss stops falling.

    Parameters
    ----------
    system:
        With :class:`~loopwise.TablePotentials`, trained or not. It is not changed.
    examples, goal:
        What gradients are taken of, and what ``refit`` trains for.
    candidates:
        Scopes of factors that may be added, of any number of variables; None: every pair that has none yet.
    dev:
        Examples that decide which factors stay.
    price, cost:
        What a unit of cost is worth in loss, and what is counted: by default cells of tables read in a sweep.
    at_once:
        How many factors are added before all weights are trained on.
    rounds:
        Handfuls at most.
    refit:
        Trains a system on examples; None: ten epochs of :func:`loopwise.learn.fit` for ``goal``.

    Returns
    -------
    Grafted
        The system on its graph, the steps (factors, cost, development loss, seconds), the loss at the end.

    >>> import loopwise as lw
    >>> truth = lw.FactorGraph.from_scopes([2, 2, 2], [(0, 1)])
    >>> values = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]] * 25)
    >>> start = lw.FactorGraph.from_scopes([2, 2, 2], [(0,), (1,), (2,)])
    >>> system = lw.System(lw.TablePotentials(start), lw.BP(iterations=3, tolerance=0), lw.decode.Max())
    >>> data = lw.Examples.of(start, values, [lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.INPUT])
    >>> grown = graft(system, data[:60], lw.loss.SurrogateLikelihood(), dev=data[60:])
    >>> [step.added for step in grown.steps if step.kept]
    [((0, 1),)]
    """
    if not len(examples):
        raise ValueError("there are no examples to take gradients of; give at least one")
    if not 0 <= price < np.inf:
        raise ValueError(f"price must be a finite number, at least 0, not {price}")
    checked_whole("at_once", at_once)
    host = _SystemHost(system, examples, dev, goal, CellCost() if cost is None else cost, refit)
    allowed = _pairs_left(system.graph) if candidates is None else _checked(system.graph, candidates)
    loss = host.dev_loss()
    spent = float(host.price.sweep(system.graph))
    steps = graft_on(host, allowed, loss, price=price, at_once=at_once, rounds=rounds, cost=spent)
    return Grafted(host.system, tuple(steps), host.dev_loss())


@dataclass(eq=False)
class _SystemHost:
    """Any system of free tables as a host."""

    system: System
    examples: Examples
    dev: Examples
    goal: Goal
    price: Cost
    refit: Refit | None
    before: System | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.system.potentials, TablePotentials) or not needs_no_input(self.system.potentials):
            raise ValueError(
                f"factors are grafted on free tables, not on {type(self.system.potentials).__name__}; make the system "
                "of lw.TablePotentials(graph)"
            )

    def gains(self, candidates: Sequence[Scope]) -> Floats:
        wide = with_factors(self.system, candidates)
        examples, count = on_graph(self.examples, wide.graph), len(self.examples)
        parts, weights = [], []
        for rows in np.array_split(np.arange(count), min(PARTS, count)):
            wide.zero_grad()
            for part in examples[rows].batches(examples.usual_chunk, by_pattern=None):
                (risk(wide, part, self.goal) * (len(part) / len(rows))).backward()  # type: ignore[no-untyped-call]
            parts.append(np.concatenate([_gradient(table) for table in wide.potentials.tables]))  # type: ignore[union-attr]
            weights.append(float(len(rows)))
        saved = expected_gain(np.array(parts), np.array(weights), count)
        return np.array([saved[place].sum() for place in _places(wide.graph, len(candidates))])

    def cost(self, scope: Scope) -> float:
        alone = FactorGraph.from_scopes(self.system.graph.cardinalities, [scope])
        return float(self.price.sweep(alone)) - self.price.each_sweep

    def grow(self, added: Sequence[Scope]) -> float:
        self.before, self.system = self.system, with_factors(self.system, added)
        examples = on_graph(self.examples, self.system.graph)
        if self.refit is None:
            fit(self.system, examples, self.goal, epochs=10, progress=False)
        else:
            self.refit(self.system, examples)
        return self.dev_loss()

    def noise(self) -> float:
        return 0.0

    def undo(self) -> None:
        assert self.before is not None
        self.system = self.before

    def dev_loss(self) -> float:
        """The goal on development data."""
        return evaluate(self.system, on_graph(self.dev, self.system.graph), self.goal)


def with_factors(system: System, added: Sequence[Scope]) -> System:
    """A system of tables with more factors, whose tables are 0; those it has keep their numbers and come first."""
    graph = system.graph
    places = [graph.locate(number) for number in range(graph.factors)]
    scopes = [tuple(graph.group(name).scopes[row].tolist()) for name, row in places]
    wide = FactorGraph.from_scopes(graph.cardinalities, [*scopes, *added])
    old: dict[str, Any] = system.potentials()
    tables = {
        group.name: torch.zeros(group.count, *group.shape, dtype=next(iter(old.values())).dtype if old else None)
        for group in wide.groups
    }
    with torch.no_grad():
        for number, (name, row) in enumerate(places):
            target, place = wide.locate(number)
            tables[target][place] = old[name][row]
    dtype = next(iter(tables.values())).dtype
    potentials = TablePotentials(wide, tables, dtype=dtype)
    return System(
        potentials, system.inference, copy.deepcopy(system.decoder), vocabulary=system.vocabulary, roles=system.roles
    )


def _gradient(table: torch.Tensor) -> Floats:
    """The gradient of a table as one vector; 0 where nothing depends on it."""
    found: Floats = (torch.zeros_like(table) if table.grad is None else table.grad).double().reshape(-1).numpy().copy()
    return found


def _places(graph: FactorGraph, last: int) -> list[slice]:
    """Where the cells of the ``last`` factors of a list stand, tables taken group after group."""
    first, begin = {}, 0
    for group in graph.groups:
        first[group.name] = begin
        begin += group.count * group.cells
    found = []
    for number in range(graph.factors - last, graph.factors):
        name, row = graph.locate(number)
        cells = graph.group(name).cells
        found.append(slice(first[name] + row * cells, first[name] + (row + 1) * cells))
    return found


def _pairs_left(graph: FactorGraph) -> list[Scope]:
    joined = {tuple(sorted(scope)) for group in graph.groups if group.arity == 2 for scope in group.scopes.tolist()}
    first, second = np.triu_indices(graph.variables, 1)
    return [pair for pair in zip(first.tolist(), second.tolist(), strict=True) if pair not in joined]


def _checked(graph: FactorGraph, candidates: Sequence[Sequence[int]]) -> list[Scope]:
    found = []
    for scope in candidates:
        if not np.iterable(scope) or not len(scope):
            raise ValueError(f"a candidate is the variables of a factor, such as (0, 1), not {scope!r}")
        places = tuple(int(place) for place in scope)
        if len(set(places)) < len(places) or not all(0 <= place < graph.variables for place in places):
            raise ValueError(
                f"the candidate {places} names a variable twice, or one that is not there; variables are numbered from "
                f"0 to {graph.variables - 1}"
            )
        found.append(places)
    return found
