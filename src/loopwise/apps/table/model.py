"""Which columns of a table are joined, and how the system of it is trained.

In: rows as integers, roles of columns; a system, examples, stages. Out: pairs of variables; changed weights, a
:class:`History`. Stage: use; the work is done by :func:`loopwise.learn.fit`. Variables are the input columns, then the
outputs, then hidden ones; these, where a structure does not name them itself, are joined to every observed one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.arguments import checked_number, checked_whole
from loopwise.graph.evidence import FREE, Role
from loopwise.graph.factor_graph import Integers, variable_range
from loopwise.graph.offsets import starts_of
from loopwise.learn.data.examples import Examples
from loopwise.learn.fit import fit
from loopwise.learn.history import Epoch, History
from loopwise.learn.optim.lbfgs import LBFGS
from loopwise.learn.plan import MakeOptimizer
from loopwise.learn.progress import Tell, progress_bar
from loopwise.learn.stages import Stage
from loopwise.learn.system import CHUNK, System
from loopwise.potentials.priors import L2

Floats = NDArray[np.float64]


class Structure(Protocol):
    """A choice of pairs."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        """``[pairs, 2]`` for rows ``values`` ``[rows, variables]`` (-1: missing), ``roles`` ``[variables]``."""
        ...


@dataclass(frozen=True)
class Complete:
    """Every pair of columns."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        seen = _observed(roles)
        first, second = np.triu_indices(len(seen), 1)
        return _with_hidden(np.stack([seen[first], seen[second]], axis=1), roles)


@dataclass(frozen=True)
class ToOutputs:
    """Every input with every output, and every pair of outputs: all that a conditional model needs if no input is ever
    missing. Fewest weights for many columns."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        every = Complete().pairs(values, cardinalities, roles)
        kept: Integers = every[(roles[every] != Role.INPUT).any(axis=1)]
        return kept


@dataclass(frozen=True)
class BySize:
    """:class:`Complete` where that can help and is cheap, else :class:`ToOutputs`.

    Pairs of inputs say something only of rows in which an input is missing: where none is, both give the same model.
    ``cells``: of pairwise tables at most, over all rows (:func:`cells_of`), before fewer pairs are preferred.
    """

    cells: int = 2_000_000

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        every, few = (kind.pairs(values, cardinalities, roles) for kind in (Complete(), ToOutputs()))
        lost = (values[:, roles == Role.INPUT] == FREE).any()
        return every if lost and cells_of(every, cardinalities, len(values)) <= self.cells else few


@dataclass(frozen=True)
class ColumnChain:
    """Each column with the next."""

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        seen = _observed(roles)
        return _with_hidden(np.stack([seen[:-1], seen[1:]], axis=1), roles)


@dataclass(frozen=True)
class Grid:
    """Columns are the places of a grid, row by row, each joined to its right and lower neighbour."""

    rows: int
    columns: int

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        seen = _observed(roles)
        if self.rows * self.columns != len(seen):
            raise ValueError(
                f"a grid of {self.rows} x {self.columns} has {self.rows * self.columns} places, the table has "
                f"{len(seen)} columns; both must be the same"
            )
        place = seen.reshape(self.rows, self.columns)
        across = np.stack([place[:, :-1].reshape(-1), place[:, 1:].reshape(-1)], axis=1)
        down = np.stack([place[:-1].reshape(-1), place[1:].reshape(-1)], axis=1)
        return _with_hidden(np.concatenate([across, down]), roles)


@dataclass(frozen=True)
class ColumnTree:
    r"""The tree of largest total mutual information between joined columns (Chow & Liu 1968).

    Of all trees it has the likelihood nearest to the data's; BP is exact on it. Mutual information is that of the rows
    in which both values are known. O(rows x states^2) by one matrix product.
    """

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        from scipy.sparse.csgraph import minimum_spanning_tree

        seen = _observed(roles)
        shared = mutual_information(values[:, seen], [cardinalities[place] for place in seen.tolist()])
        # The routine looks for the least tree and takes 0 for no edge.
        tree = minimum_spanning_tree(np.triu(shared.max() + 1.0 - shared, 1)).tocoo()
        order = np.lexsort((tree.col, tree.row))
        return _with_hidden(np.stack([seen[tree.row[order]], seen[tree.col[order]]], axis=1), roles)


@dataclass(frozen=True)
class ColumnPairs:
    """The pairs given, by number: input columns first, then outputs, then hidden variables."""

    edges: tuple[tuple[int, int], ...]

    def pairs(self, values: Integers, cardinalities: Sequence[int], roles: Integers) -> Integers:
        found: dict[tuple[int, int], None] = {}
        for one, other in self.edges:
            for place in (one, other):
                if not 0 <= place < len(roles):
                    raise ValueError(f"edge ({one}, {other}) names variable {place}; {variable_range(len(roles))}")
            if one == other:
                raise ValueError(f"edge ({one}, {other}) joins a variable with itself; leave it out")
            found[min(one, other), max(one, other)] = None
        return np.array(list(found), dtype=np.int64).reshape(-1, 2)


def cells_of(pairs: Integers, cardinalities: Sequence[int], rows: int) -> int:
    """How many cells of tables a sweep over all rows looks at: what training takes time for."""
    sizes = np.asarray(cardinalities, dtype=np.int64)
    return int((sizes[pairs[:, 0]] * sizes[pairs[:, 1]]).sum()) * rows if len(pairs) else 0


def mutual_information(values: Integers, cardinalities: Sequence[int], counts: Floats | None = None) -> Floats:
    r""":math:`\sum_{xy}\hat p(x,y)\log\frac{\hat p(x,y)}{\hat p(x)\hat p(y)}` of each pair, ``[variables, variables]``.

    Over the rows in which both values of a pair are known (each ``counts`` times); 0 where there are none.
    """
    start = starts_of(cardinalities)[:-1]
    owner = np.repeat(np.arange(len(cardinalities)), cardinalities)
    present = np.zeros((len(values), len(owner)))
    row, variable = np.nonzero(values != FREE)
    present[row, start[variable] + values[row, variable]] = 1.0
    weighted = present if counts is None else counts[:, None] * present
    both = present.T @ weighted  # [states, states]: rows that have both values
    alone = np.add.reduceat(both, start, axis=1)  # [states, variables]: those that have this one and know the other
    rows = np.add.reduceat(alone, start, axis=0)  # [variables, variables]: those that know both
    by_chance = alone[:, owner] * alone[:, owner].T
    known = both > 0
    terms = np.zeros_like(both)
    ratio = both[known] * rows[owner][:, owner][known] / by_chance[known]
    terms[known] = both[known] * np.log(ratio)
    found = np.add.reduceat(np.add.reduceat(terms, start, axis=0), start, axis=1)
    return np.where(rows > 0, found / np.maximum(rows, 1.0), 0.0)


def _observed(roles: Integers) -> Integers:
    return np.flatnonzero(roles != Role.HIDDEN)


def _with_hidden(pairs: Integers, roles: Integers) -> Integers:
    """The pairs, and every observed variable with every hidden one."""
    hidden = np.flatnonzero(roles == Role.HIDDEN)
    if not len(hidden):
        return pairs
    seen = _observed(roles)
    extra = np.stack([np.tile(seen, len(hidden)), np.repeat(hidden, len(seen))], axis=1)
    return np.concatenate([pairs, extra])


ROUNDS = 5  # of L-BFGS where the decoder must see all rows now and then: a corpus threshold
ROWS = 32  # a step of a stochastic optimiser


@dataclass(frozen=True, eq=False)
class FitOptions:
    """How to train. ``optimizer`` None: L-BFGS."""

    optimizer: MakeOptimizer | None
    iterations: int
    tolerance: float
    l2: float
    batch: int | None
    seed: int

    def __post_init__(self) -> None:
        checked_whole("iterations", self.iterations)
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must be at least 0 and below 1, not {self.tolerance}")
        checked_number("l2", self.l2, above=False)

    def epochs(self, system: System) -> int:
        """How many epochs a goal is trained for: of L-BFGS each is a minimisation."""
        if self.optimizer is not None:
            return self.iterations
        return min(ROUNDS, self.iterations) if system.decoder.needs_refresh else 1


@dataclass
class _Notes:
    """Hears of every iteration of L-BFGS: keeps the history, moves the bar."""

    tell: Tell
    history: History = field(default_factory=History)
    stage: int = 0
    since: float = field(default_factory=time.perf_counter)

    def iteration(self, number: int, loss: float) -> None:
        now, count = time.perf_counter(), len(self.history.epochs) + 1
        self.history.epochs.append(Epoch(count, loss, now - self.since, self.stage))
        self.since = now
        self.tell(count, f"iteration {count}, loss {loss:.5g}")

    def epoch(self, epoch: Epoch) -> None:
        self.stage = epoch.stage + 1  # of what comes next, unless the stage goes on
        self.since = time.perf_counter()


def train(system: System, examples: Examples, stages: Sequence[Stage], options: FitOptions, progress: bool) -> History:
    """Minimises the goals one after another; of L-BFGS the history has every iteration."""
    epochs = sum(stage.epochs or 0 for stage in stages)
    prior = L2(options.l2 / max(_rows_that_count(examples, stages[-1]), 1)) if options.l2 else None
    if options.optimizer is not None:
        return fit(
            system,
            examples,
            stages,
            optimizer=options.optimizer,
            epochs=epochs,
            batch=ROWS if options.batch is None else options.batch,
            prior=prior,
            seed=options.seed,
            progress=progress,
        )
    iterations = -(-options.iterations // options.epochs(system))
    with progress_bar(progress, iterations * epochs) as tell:
        notes = _Notes(tell)

        def make(params: list[torch.Tensor]) -> torch.optim.Optimizer:
            return LBFGS(params, iterations, loss_tolerance=options.tolerance, callback=notes.iteration)

        whole = fit(
            system,
            examples,
            stages,
            optimizer=make,
            epochs=epochs,
            batch=CHUNK if options.batch is None else options.batch,
            prior=prior,
            seed=options.seed,
            callback=notes.epoch,
            progress=False,
        )
    notes.history.ended = whole.ended
    return notes.history


def _rows_that_count(examples: Examples, stage: Stage) -> int:
    """Those over which the loss is a mean: rows without any label do not count, unless inputs are scored as well."""
    roles = (Role.INPUT, Role.OUTPUT) if getattr(stage.goal, "joint", False) else (Role.OUTPUT,)
    return int(np.isin(examples.known_roles, roles).any(axis=1).sum())
