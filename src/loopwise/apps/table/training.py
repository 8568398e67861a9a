r"""Training of a table: log-loss of whatever is asked, through BP, while cells go missing.

In: rows as integers, which columns are outputs, how cells go missing. Out: a graph and its weights, with the curve of
choices. Stage: use.

.. math:: \frac1n\sum_{\text{rows}} \mathbb E_{M}\Big[-\sum_{o\,\in\,\text{outputs}}\log b_o(y_o)
          - w\sum_{i\,\in\,M}\log b_i(x_i)\Big] + \frac{\lambda}{2n}|\theta-\theta_0|^2

:math:`M` is drawn anew for every row and epoch, :math:`b` are the beliefs of a few sweeps of BP given the cells that
are left, and the gradient goes through these sweeps. The second sum is the joint likelihood, seen through the cells
that were taken away (at random rates these conditionals make up the likelihood over orders of the columns).
:math:`\theta_0` are the closed-form weights of a Bayesian network, so that a strong prior means TAN or naive Bayes, a
weak one logistic regression on pairs; :math:`\lambda` and :math:`w` are chosen by cross-validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.apps.table.missingness import Missingness
from loopwise.apps.table.rows import CountedRows
from loopwise.apps.table.start import CountSmoothing, Scope, log_tables, positions
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.evidence_rows import EvidenceRows, losses_of
from loopwise.learn.history import History
from loopwise.learn.optim.adam import VectorAdam, cosine
from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits, train
from loopwise.learn.vector import VectorObjective

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PATH = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.03)  # strengths of the prior, each from the weights of the one before
RATE = 0.07  # of Adam
TAIL = 0.5  # of the steps, over whose weights the mean is taken
LEAST_STEPS = 200  # of each strength
MANY = 10_000  # rows, of which fewer passes are enough
DRAWS = 4  # of missing cells, of which a development row is asked


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of rows: ``outputs`` are predicted (none: any column may be), inputs go missing as said."""

    sizes: tuple[int, ...]
    outputs: tuple[int, ...]
    missing: Missingness
    sweeps: int = 4
    threads: int = 1
    ordered: tuple[bool, ...] = ()  # of each variable, whether its values are in an order; none: of no variable

    @cached_property
    def inputs(self) -> Integers:
        """The columns that may go missing."""
        return np.setdiff1d(np.arange(len(self.sizes)), self.outputs)

    def hidden(self, values: Integers, generator: np.random.Generator) -> Mask:
        """Cells that are not shown, ``[rows, columns]``: outputs, and what goes missing."""
        mask = np.zeros(values.shape, dtype=np.bool_)
        mask[:, list(self.outputs)] = True
        mask[:, self.inputs] = self.missing.draw(len(values), len(self.inputs), generator)
        if not self.outputs:  # a row of which everything is shown asks nothing
            shown = np.flatnonzero(~mask.any(axis=1))
            mask[shown, generator.integers(len(self.sizes), size=len(shown))] = True
        return mask

    def shares(self, joint: float) -> Floats:
        """How much the loss of each column counts."""
        if not self.outputs:
            return np.ones(len(self.sizes))
        return np.where(np.isin(np.arange(len(self.sizes)), self.outputs), 1.0, joint)


@dataclass(frozen=True, eq=False)
class Network:
    """A graph with its closed-form weights, to which training begins and leans."""

    task: Task
    scopes: tuple[Scope, ...]
    rows: EvidenceRows
    start: Floats

    @staticmethod
    def of(
        task: Task, parents: Sequence[Scope], seen: CountedRows, smoothing: CountSmoothing, added: Sequence[Scope] = ()
    ) -> Network:
        """The network of ``parents``, each variable's own potential, and ``added`` factors that begin with 0."""
        parents = smoothing.scopes(parents)
        alone = [(place,) for place in range(len(task.sizes)) if (place,) not in parents]
        scopes = (*parents, *alone, *added)
        graph = FactorGraph.from_scopes(task.sizes, scopes)
        rows = EvidenceRows(graph, min(task.sweeps, sweeps_enough(scopes, task.outputs)), task.threads)
        start = np.zeros(rows.size)
        for factor, table in enumerate(log_tables(parents, seen, task.sizes, smoothing, task.ordered)):
            start[rows.place(factor)] = table.reshape(-1)
        return Network(task, scopes, rows, start)

    @cached_property
    def prior(self) -> SharedStrength:
        """What weights that training moves share."""
        return SharedStrength.of(self.task, self.scopes, self.rows)

    def carried(self, other: Network, weights: Floats) -> Floats:
        """The weights of a network with fewer factors of this one's, in this one; of the others the closed form."""
        found = self.start.copy()
        for factor in range(len(other.scopes)):
            found[self.rows.place(factor)] = weights[other.rows.place(factor)]
        return found


@dataclass(frozen=True, eq=False)
class SharedStrength:
    r"""The prior over how far weights go from where they begin: independent, but for ordered variables.

    Along these the values of a table share a line: the covariance is :math:`I + zz^\top`, :math:`z` the positions of
    values (a real-valued input with a weight of its own, and a free weight for each interval). ``root`` is its
    symmetric root, over all tables; None: the identity.
    """

    root: Any = None
    inverse: Any = None

    @staticmethod
    def of(task: Task, scopes: Sequence[Scope], rows: EvidenceRows) -> SharedStrength:
        """Of the tables of a graph."""
        from scipy import sparse

        if not any(task.ordered):
            return SharedStrength()
        order = np.argsort([rows.place(factor).start for factor in range(len(scopes))])
        found = []
        for power in (1.0, -1.0):
            blocks = [_along(task, scopes[factor], power) for factor in order.tolist()]
            found.append(sparse.block_diag(blocks, format="csr"))
        return SharedStrength(*found)

    def outer(self, vector: Floats) -> Floats:
        """From independent weights to those of tables."""
        return vector.copy() if self.root is None else np.asarray(self.root @ vector)

    def inner(self, vector: Floats) -> Floats:
        """From weights of tables to independent ones."""
        return vector.copy() if self.inverse is None else np.asarray(self.inverse @ vector)


def _along(task: Task, scope: Scope, power: float) -> Any:
    """The root of the covariance of one table, or its inverse (``power`` -1): a product over the axes."""
    from scipy import sparse

    found: Any = sparse.identity(1)
    for place in scope:
        size = task.sizes[place]
        part = np.eye(size)
        if task.ordered[place] and len(scope) > 1:
            line = positions(size)
            length = float(line @ line)
            longer = np.sqrt(1.0 + length) ** power - 1.0
            part = part + longer * np.outer(line, line) / max(length, 1.0)
        found = sparse.kron(found, part)
    return found


def sweeps_enough(scopes: Sequence[Scope], outputs: Sequence[int]) -> int:
    """Sweeps after which no belief changes any more, whatever is missing: two on a star, more are not worked out."""
    star = len(outputs) == 1 and all(len(scope) < 3 and (len(scope) < 2 or outputs[0] in scope) for scope in scopes)
    return 2 if star else 1_000_000


class DrawnRoles(VectorObjective):
    """Adam on rows whose missing cells are drawn anew each round, for :func:`loopwise.learn.trainer.train`."""

    def __init__(
        self,
        task: Task,
        net: Network,
        rows: CountedRows,
        start: Floats,
        l2: float,
        joint: float,
        rounds: int,
        seed: int,
    ) -> None:
        self.task, self.net, self.rows, self.l2, self.rounds = task, net, rows, l2, rounds
        self.point, self.share = net.prior.inner(start - net.start), task.shares(joint)
        self.average, self.averaged = (
            np.zeros(len(start)),
            0,
        )  # over the last steps: cells are drawn, so single ones jump
        self.adam, self.done = VectorAdam(len(start)), 0
        self.generator = np.random.default_rng(seed)
        self.batch = batch_of(len(rows))

    def now(self) -> Floats:
        return self._weights(self.average if self.averaged else self.point)

    def _weights(self, point: Floats) -> Floats:
        return self.net.start + self.net.prior.outer(point)

    def round(self, tell: Tell) -> float | None:
        count, whole, total = len(self.rows), self.rows.total, 0.0
        values, shares = self.rows.values, self.rows.counts[:, None] * self.share
        hidden = self.task.hidden(values, self.generator)
        order = self.generator.permutation(count)
        shown = np.where(hidden, FREE, values)
        batches = -(-count // self.batch)
        for number, chosen in enumerate(np.array_split(order, batches) if batches > 1 else (order,)):
            loss, gradient = self.net.rows.loss(
                self._weights(self.point), shown[chosen], values[chosen], shares[chosen]
            )
            total += loss
            mean = self.net.prior.outer(gradient * (count / (whole * len(chosen))))
            gradient = mean + self.l2 / whole * self.point
            rate = RATE * cosine(self.done * batches + number, self.rounds * batches)
            self.point = self.adam.step(self.point, gradient, rate)
            if self.done * batches + number >= (1.0 - TAIL) * self.rounds * batches:
                self.averaged += 1
                self.average += (self.point - self.average) / self.averaged
        self.done += 1
        return total / whole

    def state(self) -> dict[str, Any]:
        own = {"point": torch.from_numpy(self.point.copy()), "done": self.done}
        tail = {"average": torch.from_numpy(self.average.copy()), "averaged": self.averaged}
        return {**own, **tail, **self.adam.state(), "generator": self.generator.bit_generator.state}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.adam.load_state(state)
        self.point, self.done = state["point"].numpy().copy(), int(state["done"])
        self.average, self.averaged = state["average"].numpy().copy(), int(state["averaged"])
        self.generator.bit_generator.state = state["generator"]


def batch_of(rows: int) -> int:
    """Rows a step: few enough that small tables have several, enough for threads where there are many."""
    return min(int(np.clip(rows // 6, 24, 128)), max(rows, 1)) if rows < MANY else 512


def epochs_of(rows: int) -> int:
    """Passes over the rows for each strength of the prior."""
    return max(5 if rows < MANY else 2, -(-LEAST_STEPS * batch_of(rows) // max(rows, 1)))


def train_weights(
    task: Task, net: Network, rows: CountedRows, start: Floats, l2: float, joint: float, seed: int
) -> tuple[Floats, History]:
    """The weights of one strength of the prior, from ``start``."""
    rounds = epochs_of(len(rows))
    objective = DrawnRoles(task, net, rows, start, l2, joint, rounds, seed)
    history = train(objective, Limits.rounds(rounds))
    return objective.now(), history


@dataclass(frozen=True, eq=False)
class Development:
    """Rows with cells taken away, once for all that are compared."""

    task: Task
    shown: Integers
    targets: Integers
    counts: Floats

    @staticmethod
    def of(task: Task, rows: CountedRows, seed: int) -> Development:
        generator = np.random.default_rng(seed)
        values = np.tile(rows.values, (DRAWS, 1))
        hidden = task.hidden(values, generator)
        scored = hidden if not task.outputs else np.isin(np.arange(values.shape[1]), task.outputs) & hidden
        shown, targets = np.where(hidden, FREE, values), np.where(scored, values, FREE)
        return Development(task, shown, targets, rows.counts)

    def loss(self, net: Network, weights: Floats) -> Floats:
        """Log-loss of each row, summed over what is asked of it, the mean over draws."""
        start = net.rows.integers.start
        found = losses_of(net.rows.beliefs(weights, self.shown), start, self.targets).sum(axis=1)
        return np.asarray(found.reshape(DRAWS, -1).mean(axis=0))
