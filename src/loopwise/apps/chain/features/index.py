"""From keys to weights: which row of a weight table a feature has.

In: 64-bit keys. Out: rows. Stage: use. :class:`Indexed` gives every feature of the training data a row of its own, the
frequent ones first, equally frequent ones as they appear (what is read together should lie together); :class:`Hashed`
shares a fixed number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from loopwise.arguments import checked_whole
from loopwise.potentials.hashing import Keys, hashed
from loopwise.potentials.linear import Integers


class FeatureIndex(Protocol):
    """What a tagger needs of either kind."""

    @property
    def size(self) -> int:
        """Rows of the weight table."""
        ...

    def find(self, keys: Keys) -> Integers:
        """The row of each key; -1 for a feature that has none."""
        ...


@dataclass(frozen=True, eq=False)
class Indexed:
    """A row for each of ``keys``, in their order."""

    keys: Keys

    @staticmethod
    def of(keys: Keys, counts: Integers, minimum: int = 1) -> Indexed:
        """The distinct ``keys`` that ``minimum`` tokens have, most frequent first; ``counts``: tokens of each entry."""
        checked_whole("the minimum count of a feature", minimum)
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        totals = np.bincount(place.reshape(-1), weights=counts, minlength=len(distinct))
        order = np.lexsort((first, -totals))
        return Indexed(distinct[order][totals[order] >= minimum])

    @property
    def size(self) -> int:
        return len(self.keys)

    def find(self, keys: Keys) -> Integers:
        if not len(self.keys):
            return np.full(keys.shape, -1, dtype=np.int64)
        order, ascending = self._sorted
        place = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
        return np.where(ascending[place] == keys, order[place], -1)

    @cached_property
    def _sorted(self) -> tuple[Integers, Keys]:
        order = np.argsort(self.keys)
        return order, self.keys[order]


@dataclass(frozen=True)
class Hashed:
    """``size`` rows; features that fall into the same one share its weights."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a hashed table needs at least 1 row, not {self.size}")

    def find(self, keys: Keys) -> Integers:
        return hashed(keys, self.size)
