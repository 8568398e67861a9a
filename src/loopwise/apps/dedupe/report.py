"""How good clusters are: pairs, B-cubed, whole clusters.

In: the cluster and the true entity of each record. Out: :class:`DedupeReport`. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.loss.clustering import Overlap

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DedupeReport:
    """Pairwise precision, recall and F1 (between two tables: of links); B-cubed; F1 of clusters that are exactly right.

    >>> DedupeReport.of(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])).cluster_f1
    0.4
    """

    records: int
    precision: float
    recall: float
    pairwise_f1: float
    b_cubed_precision: float
    b_cubed_recall: float
    b_cubed: float
    cluster_f1: float

    @staticmethod
    def of(clusters: Integers, truth: Integers, side: Integers | None = None) -> DedupeReport:
        """Records whose truth is -1 are not looked at."""
        known = truth >= 0
        mine, gold = clusters[known], truth[known]
        overlap = Overlap.of(mine, gold)
        _, both, made, right = overlap.pairs()
        if side is not None and (side >= 0).any():
            both, made, right = _links(mine, gold, side[known])
        squares = overlap.both.astype(np.float64) ** 2
        count = max(len(mine), 1)
        precision, recall = float((squares / overlap.mine).sum() / count), float((squares / overlap.gold).sum() / count)
        exact = int(((overlap.both == overlap.mine) & (overlap.both == overlap.gold)).sum())
        return DedupeReport(
            int(known.sum()),
            both / made if made else 1.0,
            both / right if right else 1.0,
            2 * both / (made + right) if made + right else 1.0,
            precision,
            recall,
            2 * precision * recall / max(precision + recall, 1e-300),
            2 * exact / max(len(overlap.clusters) + len(overlap.truths), 1),
        )

    def to_json(self) -> dict[str, Any]:
        return {name: value if name == "records" else round(value, 6) for name, value in vars(self).items()}


def _links(mine: Integers, gold: Integers, side: Integers) -> tuple[int, int, int]:
    """Pairs with one record in each table: in one cluster in both, in ours, in the truth."""
    both = mine * (int(gold.max(initial=0)) + 1) + gold
    return _across(both, side), _across(mine, side), _across(gold, side)


def _across(label: Integers, side: Integers) -> int:
    _, number = np.unique(label, return_inverse=True)
    left = np.bincount(number[side == 0], minlength=number.max(initial=-1) + 1)
    right = np.bincount(number[side != 0], minlength=number.max(initial=-1) + 1)
    return int((left * right).sum())
