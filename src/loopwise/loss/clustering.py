r"""Metrics of clusterings: pairs of mentions, and B-cubed.

In: for each mention the number of its cluster, and of its true one (-1: not scored). Out: a number. Stage: loss. The
numbers are names only: clusterings that differ by renaming are the same. O(mentions log mentions).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import FREE
from loopwise.inference.decision import Distributions
from loopwise.loss.answers import KnownAnswers, Metric
from loopwise.loss.incremental import Change, Tracker
from loopwise.loss.targets import TargetsLike

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Overlap:
    """How two clusterings of the same mentions overlap."""

    both: Integers  # mentions of each pair of a cluster and a true one that share some
    mine: Integers  # size of the cluster, beside each
    gold: Integers  # size of the true one
    clusters: Integers  # sizes of all clusters
    truths: Integers  # sizes of all true ones

    @staticmethod
    def of(mine: Integers, gold: Integers) -> Overlap:
        """From the cluster of each mention in either."""
        _, mine, sizes = np.unique(mine, return_inverse=True, return_counts=True)
        _, gold, true_sizes = np.unique(gold, return_inverse=True, return_counts=True)
        cells, both = np.unique(mine * max(len(true_sizes), 1) + gold, return_counts=True)
        rows, columns = np.divmod(cells, max(len(true_sizes), 1))
        return Overlap(both, sizes[rows], true_sizes[columns], sizes, true_sizes)

    def pairs(self) -> tuple[int, int, int, int]:
        """Pairs of mentions: all, together in both, in mine, in the truth."""
        mentions = int(self.clusters.sum())
        return mentions * (mentions - 1) // 2, _pairs(self.both), _pairs(self.clusters), _pairs(self.truths)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterMetric(Metric):
    """A metric of the overlap of two clusterings."""

    higher_is_better: ClassVar[bool] = True

    def statistics(self, prediction: Distributions | Tensor, targets: TargetsLike) -> Tensor:
        answer = KnownAnswers.of(prediction, targets)
        if not isinstance(answer.known, Tensor):
            raise ValueError(
                "a metric of clusterings needs the true cluster of each mention, not sets of them; give one number each"
            )
        mine = answer.values.reshape(-1, answer.values.shape[-1]).cpu().numpy()
        gold = answer.known.expand(answer.values.shape).reshape(mine.shape).cpu().numpy()
        rows = [self._row(row, truth) for row, truth in zip(mine, gold, strict=True)]
        found = torch.tensor(rows, dtype=torch.float64).reshape(-1, self.columns)
        return found.reshape(*answer.values.shape[:-1], self.columns)

    def _row(self, mine: Integers, gold: Integers) -> list[float]:
        scored = (gold != FREE) & (mine != FREE)
        return self._counts(Overlap.of(mine[scored], gold[scored]))

    @abstractmethod
    def _counts(self, overlap: Overlap) -> list[float]:
        """Statistics of one document."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairwiseAccuracy(ClusterMetric):
    r"""The share of pairs of mentions that are rightly together or rightly apart (the Rand index).

    .. math:: (TP + TN) / \binom{M}{2}

    The signal of Wick et al. (2011), section 5.1. 1 for a document without pairs.
    """

    @property
    def columns(self) -> int:
        return 3

    def _counts(self, overlap: Overlap) -> list[float]:
        pairs, both, mine, gold = overlap.pairs()
        return [float(overlap.clusters.sum()), pairs, pairs - mine - gold + 2 * both]

    def value(self, statistics: Tensor) -> Tensor:
        pairs = statistics[..., 1]
        return torch.where(pairs > 0, statistics[..., 2] / pairs.clamp_min(1), 1.0)

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the accuracy of one document; O(1) a change."""
        return PairTracker(truth, state)


@dataclass(frozen=True, eq=False, kw_only=True)
class PairwiseF1(ClusterMetric):
    """F1 of the pairs of mentions that are together; 1 where no pair is, neither here nor in the truth."""

    @property
    def columns(self) -> int:
        return 4

    def _counts(self, overlap: Overlap) -> list[float]:
        _, both, mine, gold = overlap.pairs()
        return [float(overlap.clusters.sum()), both, mine, gold]

    def value(self, statistics: Tensor) -> Tensor:
        size = statistics[..., 2] + statistics[..., 3]
        return torch.where(size > 0, 2 * statistics[..., 1] / size.clamp_min(1), 1.0)

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the F1 of one document; O(1) a change."""
        return PairFTracker(truth, state)


@dataclass(frozen=True, eq=False, kw_only=True)
class BCubed(ClusterMetric):
    r"""F1 of B-cubed precision and recall (Bagga and Baldwin 1998).

    .. math:: P = \frac1M \sum_m |C(m) \cap G(m)| / |C(m)|, \quad R = \frac1M \sum_m |C(m) \cap G(m)| / |G(m)|

    with C(m), G(m) the cluster and the true one of mention m. By default F1 is taken a document and then averaged, as
    Wick et al. (2011) do; ``reduction=Pooled()`` adds up over mentions first. 1 if and only if the clusterings are the
    same.
    """

    @property
    def columns(self) -> int:
        return 3

    def _counts(self, overlap: Overlap) -> list[float]:
        squares = overlap.both.astype(np.float64) ** 2
        return [
            float(overlap.clusters.sum()),
            float((squares / overlap.mine).sum()),
            float((squares / overlap.gold).sum()),
        ]

    def precision(self, statistics: Tensor) -> Tensor:
        """B-cubed precision of each row of statistics."""
        return statistics[..., 1] / statistics[..., 0].clamp_min(1)

    def recall(self, statistics: Tensor) -> Tensor:
        """B-cubed recall of each row of statistics."""
        return statistics[..., 2] / statistics[..., 0].clamp_min(1)

    def value(self, statistics: Tensor) -> Tensor:
        precision, recall = self.precision(statistics), self.recall(statistics)
        empty = statistics[..., 0] <= 0
        return torch.where(empty, 1.0, 2 * precision * recall / torch.where(empty, 1.0, precision + recall))

    def track(self, truth: Sequence[int], state: Sequence[int]) -> Tracker:
        """Follows the F1 of one document; O(1) a change."""
        return BCubedTracker(truth, state)


class PairTracker(Tracker):
    """Pairwise accuracy from a table of clusters by true clusters; new clusters may come and go."""

    def __init__(self, truth: Sequence[int], state: Sequence[int]) -> None:
        if len(truth) and min(truth) < 0:
            raise ValueError("a walk needs the true cluster of every mention; -1 is none; give the missing ones")
        self.truth = truth
        self.table: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.sizes: defaultdict[int, int] = defaultdict(int)
        self.true_sizes: defaultdict[int, int] = defaultdict(int)
        for gold, cluster in zip(truth, state, strict=True):
            self.table[cluster, gold] += 1
            self.sizes[cluster] += 1
            self.true_sizes[gold] += 1
        mentions = len(truth)
        self.pairs = mentions * (mentions - 1) // 2
        self.both, self.mine, self.gold = (_pairs_of(counts) for counts in (self.table, self.sizes, self.true_sizes))

    def value(self) -> float:
        return 1.0 - self.gap()

    def gap(self) -> float:
        return (self.mine + self.gold - 2 * self.both) / max(self.pairs, 1)

    def near(self, item: int, old: int, new: int) -> tuple[int, int, int, int]:
        """Others in the old cluster, those of the same truth, and the same of the new cluster."""
        gold = self.truth[item]
        return self.sizes[old] - 1, self.table[old, gold] - 1, self.sizes[new], self.table[new, gold]

    def change(self, item: int, old: int, new: int) -> None:
        if old == new:
            return
        left, left_alike, met, met_alike = self.near(item, old, new)
        self.both += met_alike - left_alike
        self.mine += met - left
        gold = self.truth[item]
        self.table[old, gold] -= 1
        self.table[new, gold] += 1
        self.sizes[old] -= 1
        self.sizes[new] += 1

    def gain(self, changes: Sequence[Change]) -> float:
        if len(changes) != 1:
            return super().gain(changes)
        item, old, new = changes[0]
        if old == new:
            return 0.0
        left, left_alike, met, met_alike = self.near(item, old, new)
        return (left - 2 * left_alike + 2 * met_alike - met) / max(self.pairs, 1)


class PairFTracker(PairTracker):
    """Pairwise F1 from the same table."""

    def value(self) -> float:
        return _pair_f(self.both, self.mine, self.gold)

    def gap(self) -> float:
        return 1.0 - self.value()

    def gain(self, changes: Sequence[Change]) -> float:
        if len(changes) != 1:
            return Tracker.gain(self, changes)
        item, old, new = changes[0]
        if old == new:
            return 0.0
        left, left_alike, met, met_alike = self.near(item, old, new)
        return _pair_f(self.both + met_alike - left_alike, self.mine + met - left, self.gold) - self.value()


class BCubedTracker(PairTracker):
    """B-cubed F1: sums of squared cells of the table by cluster (precision) and by true cluster (recall)."""

    def __init__(self, truth: Sequence[int], state: Sequence[int]) -> None:
        super().__init__(truth, state)
        self.purity: defaultdict[int, int] = defaultdict(int)
        self.precision, self.recall = 0.0, 0.0
        for gold, cluster in zip(truth, state, strict=True):
            self.purity[cluster] += self.table[cluster, gold]
            self.recall += self.table[cluster, gold] / self.true_sizes[gold]
        for cluster in self.sizes:
            self.precision += self.purity[cluster] / self.sizes[cluster]

    def value(self) -> float:
        return _b_cubed(self.precision, self.recall, len(self.truth))

    def gap(self) -> float:
        return 1.0 - self.value() if len(self.truth) else 0.0

    def change(self, item: int, old: int, new: int) -> None:
        if old == new:
            return
        _, left_alike, _, met_alike = self.near(item, old, new)
        self.precision, self.recall = self._sums(item, old, new)
        self.purity[old] -= 2 * left_alike + 1
        self.purity[new] += 2 * met_alike + 1
        super().change(item, old, new)

    def gain(self, changes: Sequence[Change]) -> float:
        kept = self.precision, self.recall
        if len(changes) == 1:
            item, old, new = changes[0]
            if old == new:
                return 0.0
            precision, recall = self._sums(item, old, new)
            return _b_cubed(precision, recall, len(self.truth)) - _b_cubed(*kept, len(self.truth))
        rise = Tracker.gain(self, changes)
        self.precision, self.recall = kept  # the way back would leave rounding behind
        return rise

    def _sums(self, item: int, old: int, new: int) -> tuple[float, float]:
        """Precision and recall, summed over mentions, after the change."""
        left, left_alike, met, met_alike = self.near(item, old, new)
        change = -self.purity[old] / (left + 1)
        if left > 0:
            change += (self.purity[old] - 2 * left_alike - 1) / left
        if met > 0:
            change -= self.purity[new] / met
        change += (self.purity[new] + 2 * met_alike + 1) / (met + 1)
        size = self.true_sizes[self.truth[item]]
        return self.precision + change, self.recall + 2 * (met_alike - left_alike) / size


def _pairs(sizes: Integers) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _pairs_of(counts: dict[int, int] | dict[tuple[int, int], int]) -> int:
    return sum(count * (count - 1) // 2 for count in counts.values())


def _pair_f(both: int, mine: int, gold: int) -> float:
    return 1.0 if mine + gold == 0 else 2.0 * both / (mine + gold)


def _b_cubed(precision: float, recall: float, mentions: int) -> float:
    if not mentions:
        return 1.0
    precision, recall = precision / mentions, recall / mentions
    return 2.0 * precision * recall / (precision + recall)
