"""Which examples go together: batches in order or shuffled, of one pattern of evidence if asked for.

In: how many examples, or their patterns. Out: index arrays. Stage: learning.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.graph.factor_graph import Integers


def batch_indices(
    count: int, size: int, generator: torch.Generator | None = None, patterns: NDArray[np.bool_] | None = None
) -> list[Integers]:
    """Batches of at most ``size`` examples that together hold each of ``count`` once.

    ``generator`` shuffles the examples, and the batches too where ``patterns`` (bool ``[count, ...]``, a row an
    example) keeps examples of different patterns apart. Time: O(count log count).
    """
    if size < 1:
        raise ValueError(f"a batch must have at least 1 example, not {size}")
    order = np.arange(count) if generator is None else torch.randperm(count, generator=generator).numpy()
    if patterns is None:
        return [order[start : start + size] for start in range(0, count, size)]
    groups = pattern_groups(patterns[order])
    batches = [order[group[start : start + size]] for group in groups for start in range(0, len(group), size)]
    if generator is None or len(groups) == 1:
        return batches
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def pattern_groups(patterns: NDArray[np.bool_]) -> list[Integers]:
    """Rows of equal pattern ``[count, width]``, in order within each group."""
    if patterns.shape[1] == 0 or not len(patterns):
        return [np.arange(len(patterns))]
    _, kind = np.unique(np.packbits(patterns, axis=1), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)
