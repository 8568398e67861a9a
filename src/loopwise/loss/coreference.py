r"""Metrics of coreference: MUC, CEAF by mentions and by entities, BLANC, and the average of the CoNLL shared tasks.

In: for each mention the number of its cluster, and of its true one (-1: not scored). Out: a number. Stage: loss.
Mentions are the same on both sides, singletons count. Pooled over documents (``reduction=Pooled()``), numerators and
denominators are added up first, as the reference scorer does (Pradhan et al. 2014). Where a denominator is 0 the
precision or recall is 0, as there: MUC of a document without any link is 0 even if that is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.graph.evidence import FREE
from loopwise.loss.clustering import BCubed, ClusterMetric, Integers, Overlap

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfRatios(ClusterMetric):
    """F1 of a precision and a recall, each a ratio of sums: numerator and denominator of either."""

    @property
    def columns(self) -> int:
        return 5

    def precision(self, statistics: Tensor) -> Tensor:
        """Of each row of statistics."""
        return _ratio(statistics[..., 1], statistics[..., 2])

    def recall(self, statistics: Tensor) -> Tensor:
        """Of each row of statistics."""
        return _ratio(statistics[..., 3], statistics[..., 4])

    def value(self, statistics: Tensor) -> Tensor:
        return _f1(self.precision(statistics), self.recall(statistics))


def _ratio(part: Tensor, total: Tensor) -> Tensor:
    return torch.where(total > 0, part / torch.where(total > 0, total, 1.0), 0.0)


def _f1(precision: Tensor, recall: Tensor) -> Tensor:
    return _ratio(2 * precision * recall, precision + recall)


@dataclass(frozen=True, eq=False, kw_only=True)
class MUC(_OfRatios):
    r"""F1 of links (Vilain et al. 1995): how few links must be added to join the parts of each entity.

    .. math:: R = \sum_g (|g| - p(g)) \Big/ \sum_g (|g| - 1)

    with p(g) the number of clusters that the true entity g is spread over; precision the other way round.

    >>> metric = MUC()
    >>> float(metric(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 0])))
    0.8
    """

    def _counts(self, overlap: Overlap) -> list[float]:
        mentions, cells = float(overlap.clusters.sum()), len(overlap.both)
        kept = mentions - cells
        return [mentions, kept, mentions - len(overlap.clusters), kept, mentions - len(overlap.truths)]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Aligned(_OfRatios):
    """CEAF (Luo 2005): clusters and true entities are paired one to one so that their similarities add up to most."""

    def _row(self, mine: Integers, gold: Integers) -> list[float]:
        from scipy.optimize import linear_sum_assignment  # slow to load, and every metric is known to files

        scored = (gold != FREE) & (mine != FREE)
        table = _table(mine[scored], gold[scored])
        alike = self._alike(table)
        best = float(alike[linear_sum_assignment(-alike)].sum()) if table.size else 0.0
        made, right = self._sizes(table)
        return [float(table.sum()), best, made, best, right]

    def _alike(self, table: Floats) -> Floats:
        raise NotImplementedError

    def _sizes(self, table: Floats) -> tuple[float, float]:
        raise NotImplementedError

    def _counts(self, overlap: Overlap) -> list[float]:
        raise NotImplementedError  # the row is made from the whole table


@dataclass(frozen=True, eq=False, kw_only=True)
class CEAFMentions(_Aligned):
    """CEAF-m: similarity is the number of mentions in common, so this is the share of mentions rightly aligned."""

    def _alike(self, table: Floats) -> Floats:
        return table

    def _sizes(self, table: Floats) -> tuple[float, float]:
        return float(table.sum()), float(table.sum())


@dataclass(frozen=True, eq=False, kw_only=True)
class CEAFEntities(_Aligned):
    r"""CEAF-e: similarity is :math:`2|c \cap g| / (|c| + |g|)`; precision is by clusters, recall by true entities."""

    def _alike(self, table: Floats) -> Floats:
        sizes = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :]
        alike: Floats = 2.0 * table / np.maximum(sizes, 1)
        return alike

    def _sizes(self, table: Floats) -> tuple[float, float]:
        return float(table.shape[0]), float(table.shape[1])


def _table(mine: Integers, gold: Integers) -> Floats:
    """Mentions that each cluster (row) and each true entity (column) have in common."""
    rows, row = np.unique(mine, return_inverse=True)
    columns, column = np.unique(gold, return_inverse=True)
    table = np.zeros((len(rows), len(columns)))
    np.add.at(table, (row.reshape(-1), column.reshape(-1)), 1)
    return table


@dataclass(frozen=True, eq=False, kw_only=True)
class BLANC(ClusterMetric):
    """The mean of F1 of pairs together and F1 of pairs apart (Recasens and Hovy 2011).

    Where neither side has pairs of one sort, the F1 of the other alone; 1 where there are no pairs at all.
    """

    @property
    def columns(self) -> int:
        return 5

    def _counts(self, overlap: Overlap) -> list[float]:
        pairs, both, mine, gold = overlap.pairs()
        return [float(overlap.clusters.sum()), pairs, both, mine, gold]

    def value(self, statistics: Tensor) -> Tensor:
        pairs, both, mine, gold = (statistics[..., place] for place in range(1, 5))
        apart = pairs - mine - gold + both  # rightly
        together = _ratio(2 * both, mine + gold)
        separate = _ratio(2 * apart, 2 * pairs - mine - gold)
        no_links, no_gaps = mine + gold == 0, 2 * pairs == mine + gold
        found = torch.where(no_links, separate, torch.where(no_gaps, together, (together + separate) / 2))
        return torch.where(pairs > 0, found, 1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class CoNLL(ClusterMetric):
    """The mean of MUC, B-cubed and CEAF-e F1 (Denis and Baldridge 2009; the CoNLL 2011 and 2012 shared tasks).

    >>> float(CoNLL()(torch.tensor([0, 0, 1]), torch.tensor([5, 5, 3])))
    1.0
    """

    @property
    def _parts(self) -> tuple[ClusterMetric, ...]:
        return MUC(), BCubed(), CEAFEntities()

    @property
    def columns(self) -> int:
        return sum(part.columns for part in self._parts)

    def _row(self, mine: Integers, gold: Integers) -> list[float]:
        return [number for part in self._parts for number in part._row(mine, gold)]

    def _counts(self, overlap: Overlap) -> list[float]:
        raise NotImplementedError  # the row is made of those of its parts

    def value(self, statistics: Tensor) -> Tensor:
        pieces = torch.split(statistics, [part.columns for part in self._parts], dim=-1)
        values = [part.value(piece) for part, piece in zip(self._parts, pieces, strict=True)]
        return torch.stack(values).mean(dim=0)
