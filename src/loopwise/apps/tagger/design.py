"""The features of a text as a linear map: from weights to scores of tokens, and its transpose.

In: :class:`~loopwise.apps.tagger.extraction.KeyRows` and an index. Out: :class:`Design`. Stage: use. The map is applied
in two steps, weights to rows (distinct words and values) to tokens, so what a word contributes is summed once and not
at each of its tokens; both transposes are kept, so threads write to places of their own and sums come in one order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.tagger.extraction import KeyRows
from loopwise.apps.tagger.feature_index import FeatureIndex
from loopwise.apps.tagger.text import Integers, equal_parts
from loopwise.kernels.threads import in_threads
from loopwise.potentials.features import Features
from loopwise.potentials.hashing import Keys

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

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
        from loopwise.kernels.row_sums import sum_rows

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

    @staticmethod
    def of(keys: KeyRows, index: FeatureIndex) -> Design:
        """Features that have no row in the index are left out."""
        found = index.find(keys.key)
        known = found >= 0
        lengths = np.add.reduceat(np.append(known, False).astype(np.int64), keys.start[:-1]) * (np.diff(keys.start) > 0)
        start = np.zeros(len(keys.start), dtype=np.int64)
        np.cumsum(lengths, out=start[1:])
        rows = Matrix(start, found[known].astype(np.int32), index.size)
        count, blocks = keys.token_row.shape
        every = Matrix(np.arange(count + 1) * blocks, keys.token_row.reshape(-1), rows.rows)
        return Design(every.only(lengths > 0), rows)  # rows without features need not be visited

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
