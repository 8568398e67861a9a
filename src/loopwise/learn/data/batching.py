"""Which examples go together: batches in order or shuffled, of one pattern of evidence if asked for.

In: how many examples, their sizes, their patterns. Out: index arrays. Stage: learning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.arguments import checked_whole
from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import Integers


@dataclass(frozen=True)
class TotalSize:
    """Batches of about equal work: as many examples as have together at most ``numbers`` numbers.

    An example counts one for each value of each variable and one for each value of each message, which is what
    inference keeps of it. A larger example is a batch of its own.

    >>> import loopwise as lw
    >>> examples = lw.Examples.of(lw.chain(3), [[0, 1, 1]] * 5, [lw.Role.OUTPUT] * 3)  # 6 values, 8 of messages
    >>> [len(part) for part in examples.batches(lw.learn.TotalSize(30))]
    [2, 2, 1]
    """

    numbers: int

    def __post_init__(self) -> None:
        checked_whole("the total size of a batch", self.numbers)


BatchSize = int | TotalSize  # so many examples, or examples of so much


class InBatches(ABC):
    """Examples that can be cut into parts, which are examples of the same kind."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Self: ...

    def __iter__(self) -> Iterator[Self]:
        return (self[number] for number in range(len(self)))

    def batches(
        self,
        size: BatchSize,
        generator: torch.Generator | None = None,
        *,
        by_pattern: bool | None = False,
        clamped: Iterable[Role] = (Role.INPUT,),
    ) -> Iterator[Self]:
        """Parts of at most ``size`` examples (or of a :class:`~loopwise.learn.TotalSize`) that together hold each once;
        ``generator`` shuffles.

        ``by_pattern``: the same variables are observed in all examples of a part. Inference then slices them away,
        which is faster, and an example's beliefs after a fixed number of sweeps do not depend on its neighbours; but
        patterns with few examples make small parts. None: where that leaves full parts. ``clamped``: the roles that
        count as observed (a likelihood also clamps outputs). In the union of examples of a template, observed
        variables are always sliced away: there both change nothing.
        """
        for rows in self.batch_indices(size, generator, by_pattern=by_pattern, clamped=clamped):
            yield self[rows]

    @abstractmethod
    def batch_indices(
        self,
        size: BatchSize,
        generator: torch.Generator | None = None,
        *,
        by_pattern: bool | None = False,
        clamped: Iterable[Role] = (Role.INPUT,),
    ) -> list[Integers]:
        """The numbers of the examples of each of :meth:`batches`."""


def batch_indices(
    count: int,
    size: BatchSize,
    generator: torch.Generator | None = None,
    patterns: NDArray[np.bool_] | None = None,
    sizes: Integers | None = None,
) -> list[Integers]:
    """Batches of at most ``size`` that together hold each of ``count`` examples once; a total is of their ``sizes``.

    ``generator`` shuffles the examples, and the batches too where ``patterns`` (bool ``[count, ...]``, a row an
    example) keeps examples of different patterns apart. Time: O(count log count).
    """
    if isinstance(size, int) and size < 1:
        raise ValueError(f"a batch must have at least 1 example, not {size}")
    order = np.arange(count) if generator is None else torch.randperm(count, generator=generator).numpy()
    if patterns is None:
        return _cut(order, sizes, size)
    groups = pattern_groups(patterns[order])
    batches = [batch for group in groups for batch in _cut(order[group], sizes, size)]
    if generator is None or len(groups) == 1:
        return batches
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def _cut(order: Integers, sizes: Integers | None, size: BatchSize) -> list[Integers]:
    """Examples in this order, a batch as long as the next one fits."""
    if isinstance(size, int):
        return [order[start : start + size] for start in range(0, len(order), size)]
    filled = np.concatenate([[0], np.cumsum(np.ones(len(order)) if sizes is None else sizes[order])])
    batches, start = [], 0
    while start < len(order):
        end = int(np.searchsorted(filled, filled[start] + size.numbers, side="right")) - 1
        batches.append(order[start : max(end, start + 1)])
        start = max(end, start + 1)
    return batches


def pattern_groups(patterns: NDArray[np.bool_]) -> list[Integers]:
    """Rows of equal pattern ``[count, width]``, in order within each group."""
    if patterns.shape[1] == 0 or not len(patterns):
        return [np.arange(len(patterns))]
    _, kind = np.unique(np.packbits(patterns, axis=1), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)
