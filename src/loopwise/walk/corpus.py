"""Documents as flat arrays: what compiled walks run over.

In: arrays of a model. Out: a :class:`Corpus`. Stage: walking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.graph.offsets import starts_of

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents of one model: ``arrays`` never change, ``world`` does (``states`` is its part that says everything)."""

    arrays: Any  # LabelArrays, ClusterArrays or UserArrays
    world: Any  # LabelWorld, ClusterWorld or UserWorld
    states: Integers  # of all documents
    starts: Integers  # [documents + 1], where the states of each lie
    cells: Callable[[int], int]  # how many numbers a recorded state of a document adds to

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @property
    def largest(self) -> int:
        """Items of the largest document."""
        return int(np.diff(self.starts).max(initial=0))

    def labels(self, document: int) -> list[int]:
        """The state of a document."""
        found: list[int] = self.states[self.starts[document] : self.starts[document + 1]].tolist()
        return found


def packed(parts: Mapping[str, Any], dtype: Any) -> tuple[NDArray[Any], dict[str, Any]]:
    """Arrays one after another in one, and where each begins: kernels take one long array cheaper than many short."""
    flat = [np.asarray(part).reshape(-1) for part in parts.values()]
    starts = starts_of([len(part) for part in flat])
    return joined(flat, dtype), dict(zip(parts, starts.tolist(), strict=False))


def joined(pieces: list[Any], dtype: Any) -> NDArray[Any]:
    """One contiguous, writable array of all pieces; kernels are compiled for exactly this kind."""
    return np.ascontiguousarray(np.concatenate([np.zeros(0, dtype), *pieces]), dtype=dtype)
