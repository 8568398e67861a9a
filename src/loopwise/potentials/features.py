"""Sparse features of factors: which ones fire, and how strongly.

In: indices (and values) a factor, or hashed keys. Out: :class:`Features`, flat arrays in compressed rows. Stage:
numbers. Rows are factors, example after example: features of a batch are stacked, those of different graphs joined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.graph.factor_graph import Integers
from loopwise.potentials.hashing import hashed


@dataclass(frozen=True, eq=False)
class Features:
    """Row ``r`` has the features ``index[start[r]:start[r + 1]]`` with ``value`` there (None: all 1).

    There are ``prod(batch) * factors`` rows. ``index`` keeps its integer type: 32 bits halve the memory of a large
    corpus, ``uint64`` holds keys that are still to be :meth:`hashed`. A feature listed twice counts twice.

    >>> features = Features.of_rows([[0, 2], [], [1]])
    >>> features.factors, features.start.tolist(), features.index.tolist()
    (3, [0, 2, 2, 3], [0, 2, 1])
    """

    start: Integers  # [rows + 1]
    index: NDArray[Any]  # [entries]
    value: NDArray[Any] | None = None  # [entries]
    batch: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.start.ndim != 1 or len(self.start) < 1 or self.start[0] != 0 or (np.diff(self.start) < 0).any():
            raise ValueError("row starts must be a list of integers that begins with 0 and never falls")
        if self.index.shape != (int(self.start[-1]),):
            raise ValueError(
                f"the row starts end at {self.start[-1]}, but there are {self.index.shape} indices; "
                "the last start is the number of indices"
            )
        if not np.issubdtype(self.index.dtype, np.integer):
            raise ValueError(f"feature indices must be integers, not {self.index.dtype}")
        if self.value is not None and self.value.shape != self.index.shape:
            raise ValueError(
                f"{self.value.shape} values do not fit {self.index.shape} feature indices; "
                "give one for each index, or none"
            )
        if self.value is not None and not np.isfinite(self.value).all():
            place = int(np.flatnonzero(~np.isfinite(self.value))[0])
            raise ValueError(f"value {place} of the features is {self.value[place]}; values must be finite")
        examples = math.prod(self.batch)
        if (self.rows % examples if examples else self.rows) != 0:
            raise ValueError(
                f"{self.rows} rows are no whole number of factors in each of {self.batch} examples; "
                "give each example as many"
            )

    @staticmethod
    def of(
        start: ArrayLike, index: ArrayLike, value: ArrayLike | None = None, *, batch: Sequence[int] = ()
    ) -> Features:
        """From compressed rows, as SciPy's ``indptr``, ``indices``, ``data`` are."""
        indices = np.asarray(index)
        if indices.size == 0:
            indices = indices.astype(np.int64)
        values = None if value is None else np.asarray(value)
        if values is not None and values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        return Features(
            np.asarray(start).astype(np.int64),
            np.ascontiguousarray(indices),
            None if values is None else np.ascontiguousarray(values),
            tuple(int(size) for size in batch),
        )

    @staticmethod
    def of_rows(rows: Sequence[ArrayLike], *, batch: Sequence[int] = ()) -> Features:
        """From one list of feature numbers a factor, all of value 1 (a Python loop: for small data)."""
        pieces = [np.asarray(row, dtype=np.int64).reshape(-1) for row in rows]
        start = np.zeros(len(pieces) + 1, dtype=np.int64)
        np.cumsum([len(piece) for piece in pieces], out=start[1:])
        return Features.of(start, np.concatenate([np.zeros(0, np.int64), *pieces]), batch=batch)

    @staticmethod
    def of_table(index: ArrayLike, *, batch: Sequence[int] = ()) -> Features:
        """From an array ``[rows, features]``: every factor has the same number of features, all of value 1."""
        table = np.asarray(index)
        if table.ndim != 2:
            raise ValueError(f"a table of features must be [rows, features], not of shape {table.shape}")
        return Features.of(np.arange(len(table) + 1) * table.shape[1], table.reshape(-1), batch=batch)

    @property
    def rows(self) -> int:
        return len(self.start) - 1

    @property
    def factors(self) -> int:
        """Rows of one example."""
        examples = math.prod(self.batch)
        return self.rows // examples if examples else 0

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest index; (0, -1) where there is none."""
        return (int(self.index.min()), int(self.index.max())) if self.index.size else (0, -1)

    def hashed(self, size: int) -> Features:
        """The same rows with keys replaced by their places in a table of ``size`` rows."""
        places = hashed(self.index, size)
        return Features(
            self.start, places.astype(np.int32) if size <= np.iinfo(np.int32).max else places, self.value, self.batch
        )

    def take(self, examples: ArrayLike) -> Features:
        """The chosen examples (along the first batch axis), in the order given; linear in what is taken."""
        if not self.batch:
            raise ValueError("features without a batch axis have no examples to take; stack them first")
        wanted = np.asarray(examples)
        chosen = np.arange(self.batch[0])[wanted if wanted.size else np.zeros(0, np.int64)].reshape(-1)
        width = self.rows // self.batch[0] if self.batch[0] else 0
        rows = (chosen[:, None] * width + np.arange(width)).reshape(-1)
        lengths = np.diff(self.start)[rows]
        start = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=start[1:])
        places = np.arange(start[-1]) + np.repeat(self.start[:-1][rows] - start[:-1], lengths)
        value = None if self.value is None else self.value[places]
        return Features(start, self.index[places], value, (len(chosen), *self.batch[1:]))

    @staticmethod
    def join(parts: Sequence[Features]) -> Features:
        """Features of a disjoint union of graphs: the rows of ``parts`` one after another, without a batch axis."""
        if not parts:
            raise ValueError("there are no features to join; give at least one part")
        for number, part in enumerate(parts):
            if part.batch:
                raise ValueError(
                    f"part {number} has batch axes {part.batch}; a union joins single examples; take one example of it"
                )
        return _concatenated(parts, ())

    @staticmethod
    def stack(parts: Sequence[Features]) -> Features:
        """Features of a batch: one example a part, all with the same number of factors."""
        if not parts:
            raise ValueError("there are no features to stack; give at least one part")
        for number, part in enumerate(parts):
            if (part.rows, part.batch) != (parts[0].rows, parts[0].batch):
                raise ValueError(
                    f"part {number} has {part.rows} rows, part 0 has {parts[0].rows}; "
                    "join examples of different sizes into a union instead"
                )
        return _concatenated(parts, (len(parts), *parts[0].batch))


def _concatenated(parts: Sequence[Features], batch: tuple[int, ...]) -> Features:
    offsets = np.cumsum([0, *(len(part.index) for part in parts)])
    start = np.concatenate(
        [np.zeros(1, np.int64), *(part.start[1:] + offset for part, offset in zip(parts, offsets, strict=False))]
    )
    value = None
    if any(part.value is not None for part in parts):
        value = np.concatenate([np.ones(len(p.index)) if p.value is None else p.value for p in parts])
    return Features(start, np.concatenate([part.index for part in parts]), value, batch)
