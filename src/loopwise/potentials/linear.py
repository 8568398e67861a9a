"""Features as a linear map: from weights to scores, and its transpose, at the speed of compiled sums of rows.

In: compressed rows. Out: :class:`Design`, :class:`MatrixDesign`. Stage: numbers. A design is applied in two steps,
weights to rows (distinct words and values, say) to tokens, so what a word contributes is summed once and not at each of
its tokens; both transposes are kept, so threads write to places of their own and sums come in one order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.compiled.threads import in_threads
from loopwise.potentials.features import Features
from loopwise.potentials.hashing import Keys

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_ONES: Floats = np.zeros(0)  # how the kernel is told that all values are 1


@dataclass(frozen=True, eq=False)
class Matrix:
    """Compressed rows: row ``r`` has columns ``index[start[r]:start[r + 1]]`` of ``columns``, with ``value`` there.

    ``value`` is empty where all values are 1.
    """

    start: Integers
    index: NDArray[np.int32]
    columns: int
    value: Floats = field(default_factory=lambda: _ONES)

    @property
    def rows(self) -> int:
        return len(self.start) - 1

    def only(self, columns: Flags, renamed: Integers | None = None) -> Matrix:
        """Without the other columns; ``renamed``: new numbers of those kept, ``[columns]``."""
        kept = columns[self.index]
        running = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=running[1:])
        start = running[self.start]
        index = self.index[kept]
        if renamed is None:
            return Matrix(start, index, self.columns)
        return Matrix(start, renamed[index].astype(np.int32), int(columns.sum()))

    def sums(self, marks: Keys) -> Keys:
        """Of each row the sum of its columns' ``marks``, modulo 2^64."""
        running = np.zeros(len(self.index) + 1, dtype=np.uint64)
        np.cumsum(marks[self.index], out=running[1:])
        found: Keys = running[self.start[1:]] - running[self.start[:-1]]
        return found

    def scaled(self, scale: Floats) -> Matrix:
        """Columns times ``scale`` ``[columns]``."""
        return Matrix(self.start, self.index, self.columns, scale[self.index])

    @cached_property
    def transposed(self) -> Matrix:
        from scipy.sparse import csr_matrix

        value = self.value if len(self.value) else np.ones(len(self.index), dtype=np.int8)
        turned = csr_matrix((value, self.index, self.start), shape=(self.rows, self.columns)).tocsc()
        kept = turned.data if len(self.value) else _ONES
        return Matrix(turned.indptr.astype(np.int64), turned.indices.astype(np.int32), self.rows, kept)

    def times(self, table: Floats, threads: int, out: Floats | None = None) -> Floats:
        """The product with ``table`` ``[columns, width]``: ``[rows, width]``. O(entries x width), shared by threads."""
        from loopwise.potentials.kernels.row_sums import sum_rows

        found = np.empty((self.rows, table.shape[1])) if out is None else out
        width = np.uintp(table.shape[1])
        flat, target = np.ascontiguousarray(table).reshape(-1), found.reshape(-1)
        parts = equal_parts(self.start, threads)

        def part(number: int) -> None:
            sum_rows(flat, width, self.start, self.index, self.value, *parts[number], target)

        in_threads(len(parts), part)
        return found


@dataclass(frozen=True, eq=False)
class Design:
    """``tokens`` times ``rows``: the features of every token."""

    tokens: Matrix  # [tokens, rows]
    rows: Matrix  # [rows, features]

    @property
    def features(self) -> int:
        return self.rows.columns

    def scores(self, weights: Floats, threads: int) -> Floats:
        """``[tokens, width]`` for weights ``[features, width]``."""
        return self.tokens.times(self.rows.times(weights, threads, self._room(weights.shape[1])), threads)

    def transposed_scores(self, adjoint: Floats, threads: int, out: Floats | None = None) -> Floats:
        """``[features, width]`` for ``adjoint`` ``[tokens, width]``."""
        summed = self.tokens.transposed.times(adjoint, threads, self._room(adjoint.shape[1]))
        return self.rows.transposed.times(summed, threads, out)

    def _room(self, width: int) -> Floats:
        """A table ``[rows, width]`` to work in, kept from call to call: fresh memory is not free."""
        if width not in self._rooms:
            self._rooms[width] = np.empty((self.rows.rows, width))
        return self._rooms[width]

    @cached_property
    def _rooms(self) -> dict[int, Floats]:
        return {}

    @cached_property
    def flat(self) -> Features:
        """The features of each token, one after another, for learners that go token by token."""
        lengths = np.diff(self.rows.start)[self.tokens.index]  # of each row of each token
        begin = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=begin[1:])
        places = np.arange(begin[-1]) + np.repeat(self.rows.start[self.tokens.index] - begin[:-1], lengths)
        value = self.rows.value[places] if len(self.rows.value) else None
        return Features(begin[self.tokens.start], self.rows.index[places], value)


class MatrixDesign(Design):
    """Scores are ``matrix`` times weights, plus a ``shift`` ``[elements, K]`` if there is one."""

    matrix: Any
    shift: Floats | None

    def __init__(self, matrix: Any, shift: Floats | None = None) -> None:
        self.__dict__.update(matrix=matrix, shift=shift)  # the base is frozen

    def __repr__(self) -> str:
        return f"MatrixDesign({self.matrix.shape[0]} elements, {self.matrix.shape[1]} features)"

    @property
    def features(self) -> int:
        return int(self.matrix.shape[1])

    def scores(self, weights: Floats, threads: int) -> Floats:
        """``[elements, width]`` for weights ``[features, width]``. One matrix product."""
        found = np.ascontiguousarray(self.matrix @ weights)
        return found if self.shift is None else found + self.shift

    def transposed_scores(self, adjoint: Floats, threads: int, out: Floats | None = None) -> Floats:
        """``[features, width]`` for ``adjoint`` ``[elements, width]``."""
        found: Floats = np.asarray(self.matrix.T @ adjoint)
        if out is None:
            return found
        out[...] = found
        return out

    @cached_property
    def flat(self) -> Features:
        """The features of each element one after another, for learners that go element by element: 0 and 1 only."""
        from scipy import sparse

        rows = sparse.csr_array(self.matrix, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        strange = np.flatnonzero(rows.data != 1.0)
        if strange.size:
            raise ValueError(
                f"this learner takes features that are 0 or 1, and one is {rows.data[strange[0]]}; choose a loss "
                "instead, or make features of intervals, with standardize=False"
            )
        return Features(rows.indptr.astype(np.int64), rows.indices.astype(np.int32))


def equal_parts(start: NDArray[np.integer[Any]], count: int) -> list[tuple[int, int]]:
    """Cuts rows that begin at ``start[:-1]`` into at most ``count`` ranges with about equally many entries."""
    if count == 1:
        return [(0, len(start) - 1)]
    goals = np.linspace(0, int(start[-1]), count + 1)[1:-1]
    cuts = [0, *np.searchsorted(start, goals).tolist(), len(start) - 1]
    return [(low, high) for low, high in itertools.pairwise(cuts) if high > low] or [(0, 0)]


def is_sparse(inputs: Any) -> bool:
    """Whether it is one of SciPy's sparse matrices or arrays."""
    from scipy import sparse

    return bool(sparse.issparse(inputs))


def compressed(inputs: Any) -> Any:
    """The rows as a SciPy CSR array, zeros of dense inputs included: a dense row stays one."""
    from scipy import sparse

    if is_sparse(inputs):
        made = sparse.csr_array(inputs)
        made.sum_duplicates()
        return made
    rows, features = inputs.shape
    start = np.arange(rows + 1) * features
    index = np.tile(np.arange(features), rows)
    return sparse.csr_array((inputs.reshape(-1), index, start), shape=inputs.shape)
