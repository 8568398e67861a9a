r"""Beliefs of many rows of evidence over one graph, each with its own pattern of missing values, at the same speed.

In: a graph of tables, log tables as one vector, rows of values. Out: beliefs ``[rows, states]``, log-losses with their
gradient. Stage: inference. The numbers are those of ``BP(iterations=sweeps, tolerance=0)`` with each row's evidence.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.arguments import checked_whole
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.offsets import starts_of
from loopwise.inference.kernels.evidence_rows import AXES, LEAST, RowArrays, beliefs_of_rows, loss_of_rows
from loopwise.inference.messages.message_passing import BP

Floats = NDArray[np.float64]

WIDEST = 300.0  # weights beyond are left to the engine that has a log domain


@dataclass(frozen=True, eq=False)
class EvidenceRows:
    """A graph made ready for rows of evidence: the weights of all its tables are one vector, group after group.

    ``sweeps``: of flooding BP. Factors may have up to three variables.

    >>> import loopwise as lw
    >>> graph = lw.FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> rows = EvidenceRows(graph, sweeps=2)
    >>> rows.beliefs(np.log([3.0, 1.0, 1.0, 1.0]), np.array([[0, -1], [-1, -1]])).round(3).tolist()
    [[1.0, 0.0, 0.75, 0.25], [0.667, 0.333, 0.667, 0.333]]
    """

    graph: FactorGraph
    sweeps: int
    threads: int = 1

    def __post_init__(self) -> None:
        if not takes(self.graph):
            raise ValueError(
                f"rows of evidence go by tables of at most {AXES} variables, and this graph has others; use lw.BP()"
            )
        checked_whole("sweeps", self.sweeps)

    @property
    def size(self) -> int:
        """How many weights there are."""
        return sum(group.count * group.cells for group in self.graph.groups)

    @cached_property
    def integers(self) -> RowArrays:
        """What the compiled loops take."""
        sizes = self.graph.cardinalities
        scopes, strides, firsts = [], [], []
        first = 0
        for group in self.graph.groups:
            scope = np.full((group.count, AXES), -1, dtype=np.int64)
            scope[:, : group.arity] = group.scopes
            stride = np.zeros((group.count, AXES), dtype=np.int64)
            stride[:, : group.arity] = np.cumprod([1, *group.shape[:0:-1]])[::-1] if group.arity else 0
            scopes.append(scope)
            strides.append(stride)
            firsts.append(first + group.cells * np.arange(group.count))
            first += group.cells * group.count
        none = np.zeros((0, AXES), dtype=np.int64)
        return RowArrays(
            np.array(sizes, dtype=np.int64),
            starts_of(sizes),
            np.concatenate([none, *scopes]),
            np.concatenate([none, *strides]),
            np.concatenate([none[:, 0], *firsts]).astype(np.int64),
        )

    def place(self, factor: int) -> slice:
        """Where the weights of a factor stand, by its number in the list that the graph was built from."""
        name, row = self.graph.locate(factor)
        first, cells = self._groups[name]
        return slice(first + row * cells, first + (row + 1) * cells)

    @cached_property
    def _groups(self) -> dict[str, tuple[int, int]]:
        """Where each group begins, and the cells of one of its factors."""
        found, first = {}, 0
        for group in self.graph.groups:
            found[group.name] = first, group.cells
            first += group.count * group.cells
        return found

    def beliefs(self, weights: Floats, rows: Integers, potentials: Floats | None = None) -> Floats:
        """Beliefs about every variable given what each of ``rows`` ``[rows, variables]`` knows (-1: nothing).

        ``potentials``: the exponentials of ``weights``, if they are known.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        out = np.empty((len(rows), int(self.integers.start[-1])))
        potentials = np.exp(weights) if potentials is None else potentials

        def part(chosen: slice) -> None:
            beliefs_of_rows(self.integers, rows[chosen], weights, potentials, self.sweeps, out[chosen])

        self._in_parts(len(rows), part)
        return out

    def loss(self, weights: Floats, rows: Integers, targets: Integers, share: Floats) -> tuple[float, Floats]:
        r"""The sum over rows of :math:`-\sum_v s_v \log b_v(t_v)` over free variables with a target, and its gradient.

        ``targets`` ``[rows, variables]``: right values, -1 where none counts; ``share``: how much each counts.
        """
        rows, targets = (np.ascontiguousarray(given, dtype=np.int64) for given in (rows, targets))
        share = np.ascontiguousarray(np.broadcast_to(share, rows.shape), dtype=np.float64)
        potentials = np.exp(weights)
        found: list[tuple[float, Floats]] = []

        def part(chosen: slice) -> None:
            gradient = np.zeros(len(weights))
            loss = loss_of_rows(
                self.integers, rows[chosen], targets[chosen], share[chosen], weights, potentials, self.sweeps, gradient
            )
            found.append((float(loss), gradient))

        self._in_parts(len(rows), part)
        return sum(loss for loss, _ in found), np.add.reduce([gradient for _, gradient in found])

    def _in_parts(self, count: int, part: object) -> None:
        assert callable(part)
        threads = min(self.threads, max(1, count // 256))
        if threads == 1:
            part(slice(0, count))
            return
        ends = np.linspace(0, count, threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, [slice(low, high) for low, high in itertools.pairwise(ends)]))


def takes(graph: FactorGraph) -> bool:
    """Whether a graph has nothing but tables of at most three variables."""
    return not graph.structured and all(group.arity <= AXES for group in graph.groups)


def losses_of(beliefs: Floats, start: Integers, targets: Integers) -> Floats:
    """Log-losses ``[rows, variables]`` of targets, 0 where there is none (-1)."""
    chosen = np.take_along_axis(beliefs, start[:-1] + np.maximum(targets, 0), axis=1)
    return np.where(targets != FREE, -np.log(np.maximum(chosen, LEAST)), 0.0)


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """A trained model that answers rows of evidence: weights fixed, what follows from them kept.

    >>> import loopwise as lw
    >>> graph = lw.FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> tables = lw.TablePotentials(graph, {"pair": np.log([[[3.0, 1.0], [1.0, 1.0]]])})
    >>> RowAnswers.of(lw.System(tables, lw.BP(iterations=2, tolerance=0))).beliefs(np.array([[0, -1]]))[1].tolist()
    [[0.75, 0.25]]
    """

    rows: EvidenceRows
    weights: Floats
    potentials: Floats

    @staticmethod
    def of(system: Any) -> RowAnswers | None:
        """Of a system of finite tables under a fixed number of plain BP sweeps; None for any other."""
        sweeps = sweeps_of(system.inference)
        if sweeps is None or not takes(system.graph):
            return None
        weights = np.concatenate([np.zeros(0), *(p.detach().double().reshape(-1).numpy() for p in system.parameters())])
        rows = EvidenceRows(system.graph, sweeps)
        if len(weights) != rows.size or not np.isfinite(weights).all() or np.abs(weights).max(initial=0.0) > WIDEST:
            return None
        return RowAnswers(rows, weights, np.exp(weights))

    def beliefs(self, values: Integers) -> list[Floats]:
        """Beliefs ``[rows, values]`` of each variable, given what is known (-1: free)."""
        found = self.rows.beliefs(self.weights, values, self.potentials)
        return np.split(found, self.rows.integers.start[1:-1], axis=1)


def sweeps_of(method: object) -> int | None:
    """The sweeps of an inference method that rows of evidence can go by; None for any other."""
    if not isinstance(method, BP):
        return None
    sweeps = int(method.iterations)
    return sweeps if sweeps > 0 and method == BP(iterations=sweeps, tolerance=0) else None
