"""The weights that a batch reads: gathered from the table once, updated there once.

In: a table, the features of each chunk of sentences. Out: the distinct weights and where each feature's stands; and the
table, a step later. Stage: use. Each thread has a range of the table to itself, and the features that fall into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.apps.parser.arcs import Small
from loopwise.apps.parser.table import DELTA, Floats, Table
from loopwise.apps.parser.vocabulary import Integers
from loopwise.kernels.threads import in_threads


@dataclass(frozen=True, eq=False)
class Portion:
    """The features of one chunk of sentences, those of each range of the table apart: ``rows`` of range r from
    ``first[r]`` to ``first[r + 1]``; those of a part from ``starts[r, part]`` on, counted from there."""

    rows: Small
    first: Integers
    starts: Integers
    positions: Small  # of the rows, in the weights found

    @classmethod
    def of(cls, index: Small, start: Integers, size: int, ranges: int) -> Portion:
        from loopwise.kernels.parser_parts import split_rows

        rows, first, starts = index, np.array([0, len(index)]), start[None]
        if ranges > 1:
            rows, first, starts = split_rows(index, start, size, ranges)
        return cls(rows, first, starts, np.empty(len(index), np.int32))

    def of_range(self, place: int) -> slice:
        return slice(self.first[place], self.first[place + 1])


@dataclass(frozen=True, eq=False)
class Found:
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
        """Where the weights of a chunk's features stand, as its sentences list them."""
        from loopwise.kernels.parser_parts import join_positions

        portion = self.portions[chunk]
        if len(self.rows) == 1:
            return portion.positions
        joined: Small = join_positions(self.indices[chunk], self.size, portion.positions, portion.first)
        return joined


def find_weights(table: Table, features: list[tuple[Small, Integers]], rate: float, l2: float, threads: int) -> Found:
    """Gathers what a batch reads, regularisation paid, so that random access to the table happens once a weight.

    ``features``: of each chunk, with where those of each part begin. A range of the table belongs to one thread, and so
    does every array that is written meanwhile: threads never wait for each other's cache lines."""
    from loopwise.kernels.parser_parts import find_rows

    total = sum(len(index) for index, _ in features)
    if total > np.iinfo(np.int32).max:
        raise ValueError(f"a batch reads {total} weights, which is too many; prune, or take smaller batches")
    portions = in_threads(len(features), lambda place: Portion.of(*features[place], table.size, threads))
    sizes = np.sum([np.diff(portion.first) for portion in portions], axis=0)
    offsets = np.cumsum(sizes) - sizes
    weights = np.empty(total, np.float32)
    views = (table.weights, table.squares, table.last, table.marks)

    def find(place: int) -> Integers:
        rows, count = np.empty(sizes[place], np.int64), 0
        for portion in portions:
            here = portion.of_range(place)
            count = find_rows(
                portion.rows[here], offsets[place], views, table.steps, rate, DELTA, l2, rows, count,
                portion.positions[here], weights,
            )  # fmt: skip
        return rows[:count]

    return Found([index for index, _ in features], portions, in_threads(threads, find), offsets, weights, table.size)


def update_weights(table: Table, found: Found, adjoints: list[Any], rate: float, l2: float) -> None:
    """AdaGrad with composite mirror descent on the weights of a batch."""
    from loopwise.kernels.comid import step_rows
    from loopwise.kernels.parser_parts import scatter_parts

    table.steps += 1

    def update(place: int) -> None:
        rows = found.rows[place]
        sums = np.zeros((len(rows), 1))
        for adjoint, portion in zip(adjoints, found.portions, strict=True):
            positions = portion.positions[portion.of_range(place)]
            scatter_parts(adjoint, portion.starts[place], positions, found.offsets[place], sums)
        step_rows(table.weights, table.squares, table.last, rows, sums, table.steps, rate, DELTA, 0.0, l2)

    in_threads(len(found.rows), update)
