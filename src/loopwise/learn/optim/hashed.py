"""A hashed table of weights with what its optimiser remembers, and the weights that a batch reads of it.

In: a size; the features of each chunk of examples. Out: :class:`HashedTable`, changed in place by training; the
distinct weights of a batch and where each feature's stands; entries that are not 0 as tensors, for files. Stage:
learning. The update is that of :class:`~loopwise.learn.optim.AdaGradCOMID`, by its kernels. Each thread has a range of
the table to itself, and the features that fall into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.graph.factor_graph import Integers

Floats = NDArray[np.float32]
Small = NDArray[np.int32]
DELTA = 1e-9


@dataclass(eq=False)
class HashedTable:
    """Weights, sums of squared gradients, the step at which each row was last regularised, and a mark for finding rows.

    The four stand side by side in memory, ``cells[size, 4]``: a row that is touched costs one cache line, not four.
    """

    size: int
    steps: int = 0
    cells: Floats = field(init=False)
    started: bool = field(default=False, init=False)  # at trained weights that a prior is to spare

    def __post_init__(self) -> None:
        self.cells = np.zeros((self.size, 4), dtype=np.float32)

    @property
    def weights(self) -> Floats:
        """A view ``[size, 1]``, as kernels of optimisers want it."""
        return self.cells[:, 0:1]

    @property
    def squares(self) -> Floats:
        """A view ``[size, 1]``."""
        return self.cells[:, 1:2]

    @property
    def last(self) -> NDArray[np.int32]:
        """A view ``[size]``."""
        return self.cells.view(np.int32)[:, 2]

    @property
    def marks(self) -> NDArray[np.int32]:
        """A view ``[size]``."""
        return self.cells.view(np.int32)[:, 3]

    def copy_weights(self) -> Floats:
        """The weights by themselves, ``[size]``."""
        return self.cells[:, 0].copy()

    def set_weights(self, weights: Floats) -> None:
        """Other weights; what the optimiser remembers stays."""
        self.cells[:, 0] = weights

    def start_from(self, weights: Floats, regularised: bool) -> None:
        """Begins at trained weights. A prior would send those without any gradient yet to 0 at once: an unknown scale
        counts as 1, with which they also move less than without a prior."""
        self.set_weights(weights)
        self.started = regularised
        self.forget()

    def forget(self) -> None:
        """A fresh optimiser; the weights stay."""
        self.cells[:, 1:] = 0.0
        if self.started:
            self.cells[:, 1] = self.cells[:, 0] != 0
        self.steps = 0

    def flush(self, rate: float, l2: float) -> None:
        """Pays the regularisation that untouched rows owe: before weights are used, saved, or the rate changes."""
        if l2 == 0:
            return  # nothing is ever owed
        from loopwise.learn.kernels.comid import catch_up

        catch_up(self.weights, self.squares, self.last, self.steps, rate, DELTA, 0.0, l2)

    def state(self) -> dict[str, Tensor | int]:
        """Weights and what the optimiser remembers, rows that were ever touched only; after :meth:`flush`."""
        rows = np.flatnonzero((self.cells[:, 1] != 0) | (self.cells[:, 0] != 0))
        return {
            "rows": torch.from_numpy(rows.astype(np.int32)),
            "weights": torch.from_numpy(self.cells[rows, 0]),
            "squares": torch.from_numpy(self.cells[rows, 1]),
            "steps": self.steps,
        }

    def restore(self, state: Mapping[str, Tensor | int]) -> None:
        """As it was when :meth:`state` was asked for."""
        rows, weights, squares = (np.asarray(state[name]) for name in ("rows", "weights", "squares"))
        self.cells[:] = 0.0
        self.cells[rows, 0], self.cells[rows, 1] = weights, squares
        self.steps = int(state["steps"])
        self.last[:] = self.steps


def pack(weights: Floats) -> dict[str, Tensor]:
    """The entries that are not 0, or all of them where that is shorter."""
    rows = np.flatnonzero(weights)
    if 2 * len(rows) > len(weights):
        return {"all": torch.from_numpy(np.ascontiguousarray(weights))}
    return {"rows": torch.from_numpy(rows.astype(np.int32)), "values": torch.from_numpy(weights[rows])}


def unpack(tensors: Mapping[str, Tensor], size: int) -> Floats:
    """The weights that :func:`pack` was given."""
    if "all" in tensors:
        whole: Floats = tensors["all"].numpy().astype(np.float32, copy=True)
        if whole.shape != (size,):
            raise ValueError(f"there are {whole.size} weights where there should be {size}")
        return whole
    rows, values = tensors["rows"].numpy(), tensors["values"].numpy()
    if rows.shape != values.shape or (rows.size and (rows.min() < 0 or rows.max() >= size)):
        raise ValueError(f"weights do not fit a table of {size}")
    weights = np.zeros(size, dtype=np.float32)
    weights[rows] = values
    return weights


@dataclass(frozen=True, eq=False)
class Portion:
    """The features of one chunk of examples, those of each range of the table apart: ``rows`` of range r from
    ``first[r]`` to ``first[r + 1]``; those of a part from ``starts[r, part]`` on, counted from there."""

    rows: Small
    first: Integers
    starts: Integers
    positions: Small  # of the rows, in the weights found

    @classmethod
    def of(cls, index: Small, start: Integers, size: int, ranges: int) -> Portion:
        from loopwise.learn.kernels.hashed import split_rows

        rows, first, starts = index, np.array([0, len(index)]), start[None]
        if ranges > 1:
            rows, first, starts = split_rows(index, start, size, ranges)
        return cls(rows, first, starts, np.empty(len(index), np.int32))

    def of_range(self, place: int) -> slice:
        return slice(self.first[place], self.first[place + 1])


@dataclass(frozen=True, eq=False)
class FoundRows:
    """The distinct weights of a batch, range by range: ``rows[r]`` of the table stand from ``offsets[r]`` in
    ``weights``.
    """

    indices: list[Small]
    portions: list[Portion]
    rows: list[Integers]
    offsets: Integers
    weights: Floats
    size: int  # of the table

    def positions(self, chunk: int) -> Small:
        """Where the weights of a chunk's features stand, as its examples list them."""
        from loopwise.learn.kernels.hashed import join_positions

        portion = self.portions[chunk]
        if len(self.rows) == 1:
            return portion.positions
        joined: Small = join_positions(self.indices[chunk], self.size, portion.positions, portion.first)
        return joined


def find_weights(
    table: HashedTable, features: list[tuple[Small, Integers]], rate: float, l2: float, threads: int
) -> FoundRows:
    """Gathers what a batch reads, regularisation paid, so that random access to the table happens once a weight.

    ``features``: of each chunk, with where those of each part begin. A range of the table belongs to one thread, and so
    does every array that is written meanwhile: threads never wait for each other's cache lines."""
    from loopwise.learn.kernels.hashed import DuePenalty, find_rows

    total = sum(len(index) for index, _ in features)
    if total > np.iinfo(np.int32).max:
        raise ValueError(f"a batch reads {total} weights, which is too many; take smaller batches")
    portions = in_threads(len(features), lambda place: Portion.of(*features[place], table.size, threads))
    sizes = np.sum([np.diff(portion.first) for portion in portions], axis=0)
    offsets = np.cumsum(sizes) - sizes
    weights = np.empty(total, np.float32)
    views, due = (table.weights, table.squares, table.last, table.marks), DuePenalty(table.steps, rate, DELTA, l2)

    def find(place: int) -> Integers:
        rows, count = np.empty(sizes[place], np.int64), 0
        for portion in portions:
            here = portion.of_range(place)
            count = find_rows(
                portion.rows[here], offsets[place], views, due, rows, count, portion.positions[here], weights
            )
        return rows[:count]

    return FoundRows(
        [index for index, _ in features], portions, in_threads(threads, find), offsets, weights, table.size
    )


def update_weights(table: HashedTable, found: FoundRows, adjoints: list[Any], rate: float, l2: float) -> None:
    """AdaGrad with composite mirror descent on the weights of a batch."""
    from loopwise.learn.kernels.comid import step_rows
    from loopwise.learn.kernels.hashed import scatter_parts

    table.steps += 1

    def update(place: int) -> None:
        rows = found.rows[place]
        sums = np.zeros((len(rows), 1))
        for adjoint, portion in zip(adjoints, found.portions, strict=True):
            positions = portion.positions[portion.of_range(place)]
            scatter_parts(adjoint, portion.starts[place], positions, found.offsets[place], sums)
        step_rows(table.weights, table.squares, table.last, rows, sums, table.steps, rate, DELTA, 0.0, l2)

    in_threads(len(found.rows), update)
