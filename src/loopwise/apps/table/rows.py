"""Rows of a table as integers, and how much each of them counts.

In: codes, weights. Out: :class:`CountedRows`. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.factor_graph import Integers

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CountedRows:
    """``values`` ``[rows, variables]`` (-1: missing), each row as if it were there ``counts`` times.

    >>> rows = CountedRows.of(np.array([[0, 1], [1, -1], [1, 1]]), np.array([2.0, 1.0, 0.5]))
    >>> len(rows[1:]), rows.total
    (2, 3.5)
    """

    values: Integers
    counts: Floats

    @staticmethod
    def of(values: Integers, counts: Floats | None = None) -> CountedRows:
        """Rows that count once each, unless ``counts`` says otherwise."""
        return CountedRows(values, np.ones(len(values)) if counts is None else counts)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: Any) -> CountedRows:
        return CountedRows(self.values[chosen], self.counts[chosen])

    @property
    def total(self) -> float:
        """How many rows these stand for."""
        return float(self.counts.sum())

    def in_order(self) -> CountedRows:
        """The same rows sorted by their values, so that what is learnt does not depend on how they came."""
        return self[np.lexsort((self.counts, *self.values.T[::-1]))]
