"""What resolving gives: clusters, how sure they are, links, one record for each cluster, and why.

In: a table and a trained model. Out: :class:`Resolution`. Stage: use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from loopwise.apps.dedupe.entities import EntityModel
from loopwise.apps.dedupe.pair_model import PER_COMPARISON, scales
from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.table import CandidateTable
from loopwise.apps.dedupe.training import Method, TrainedDedupe
from loopwise.decode.scored_pairs import CandidateParts, Graph
from loopwise.formats.files import PathLike, atomic_write
from loopwise.formats.table import csv_line
from loopwise.graph.offsets import starts_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

TEMPERATURE = 2.0  # of the walk whose shares are confidences: evidence of several pairs is not independent
START = "before any comparison"  # as likely as two candidates match
MOST_SAMPLED = 2000  # parts of which marginals are sampled


@dataclass(frozen=True)
class Reason:
    """Why two records are thought the same: a comparison, its similarity (None: missing), what it adds to the logit."""

    comparison: str
    similarity: float | None
    weight: float


@dataclass(frozen=True)
class Cohesion:
    """A cluster as a whole: how many records, the mean probability of its pairs, the lowest of its members."""

    cluster: int
    size: int
    mean: float
    lowest: float


@dataclass(frozen=True, eq=False)
class Resolution:
    """The clusters of a table.

    ``clusters``: a number for each record, from 0 in the order of their first records. ``confidence``: of each record,
    the probability that it belongs with the others of its cluster (alone: that it belongs with nobody).
    """

    table: CandidateTable
    trained: TrainedDedupe
    graph: Graph
    parts: CandidateParts
    clusters: Integers
    probability: Floats  # of each pair of the parts: to be in one cluster
    names: tuple[str, ...]

    @staticmethod
    def of(table: CandidateTable, trained: TrainedDedupe, names: Sequence[str]) -> Resolution:
        """Resolves the table."""
        graph = table.graph(trained.pairs)
        parts = table.parts(trained.pairs, graph)
        found = trained.clusters(table, graph, parts)
        if trained.method is Method.CONNECTED:
            probability = expit(parts.logit)
        elif trained.method is Method.MATCHED:
            probability = _of_links(parts, found, trained.way.threshold)
        else:
            probability = EntityModel.untrained(len(table.comparer.columns), trained.entities.seed).together(
                parts, found, table.agreement, temperature=TEMPERATURE, most=MOST_SAMPLED
            )
        _, first, number = np.unique(found, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        return Resolution(table, trained, graph, parts, rank[number.reshape(-1)], probability, tuple(names))

    @property
    def records(self) -> Records:
        return self.table.records

    @cached_property
    def _pairs(self) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        one, other = self.parts.pairs
        return one, other, self.clusters[one] == self.clusters[other]

    @cached_property
    def confidence(self) -> Floats:
        one, other, together = self._pairs
        size = len(self.clusters)
        total, count, rival = np.zeros(size), np.zeros(size), np.zeros(size)
        for row in (one, other):
            np.add.at(total, row[together], self.probability[together])
            np.add.at(count, row[together], 1)
            np.maximum.at(rival, row[~together], self.probability[~together])
        return np.where(count > 0, total / np.maximum(count, 1), 1.0 - rival)

    @cached_property
    def cluster_confidence(self) -> Floats:
        """Of each cluster, the mean of its members'."""
        sums = np.bincount(self.clusters, weights=self.confidence)
        return sums / np.maximum(np.bincount(self.clusters), 1)

    def members(self, cluster: int) -> Integers:
        """The records of a cluster."""
        return np.flatnonzero(self.clusters == cluster)

    @cached_property
    def _by_cluster(self) -> tuple[Integers, Integers]:
        order = np.argsort(self.clusters, kind="stable")
        return order, starts_of(np.bincount(self.clusters))

    def largest(self, count: int = 10) -> list[Cohesion]:
        """The largest clusters and how they hang together: where a table goes wrong, it shows here first."""
        order, starts = self._by_cluster
        found = []
        for cluster in np.argsort(-np.diff(starts), kind="stable")[:count].tolist():
            members = order[starts[cluster] : starts[cluster + 1]]
            if len(members) > 1:
                mine = self.confidence[members]
                found.append(Cohesion(cluster, len(members), float(mine.mean()), float(mine.min())))
        return found

    def doubtful(self, count: int = 20) -> list[int]:
        """Clusters of several records, the least sure first."""
        order, starts = self._by_cluster
        several = np.flatnonzero(np.diff(starts) > 1)
        lowest = np.minimum.reduceat(self.confidence[order], starts[:-1]) if len(order) else np.zeros(0)
        found: list[int] = several[np.argsort(lowest[several], kind="stable")][:count].tolist()
        return found

    def links(self) -> list[tuple[int, int, float]]:
        """Pairs of records in one cluster that were compared, with the probability of each; between two tables: those
        with one record in each."""
        one, other, together = self._pairs
        side = self.table.side
        kept = together & ((side[one] < 0) | (side[one] != side[other]))
        order = np.lexsort((other[kept], one[kept]))
        rows = zip(one[kept][order], other[kept][order], self.probability[kept][order], strict=True)
        return [(int(a), int(b), float(p)) for a, b, p in rows]

    def canonical(self, cluster: int) -> dict[str, str]:
        """One record for a cluster: in each column the value that most members have; of equally frequent ones the
        longest, then the first."""
        order, starts = self._by_cluster
        members = order[starts[cluster] : starts[cluster + 1]]
        found = {}
        for name, column in zip(self.records.names, self.records.columns, strict=True):
            counts = Counter(column[row] for row in members.tolist() if column[row])
            found[name] = max(counts, key=lambda value: (counts[value], len(value))) if counts else ""
        return found

    def explain(self, one: int, other: int, most: int | None = 8, *, by_column: bool = False) -> list[Reason]:
        """What speaks for and against two records being the same.

        Parameters
        ----------
        one, other: rows of the table.
        most: how many reasons; None: all, which add up to the log-odds of the pair, up to limits.
        by_column: comparisons of a column taken together, for some say the same and share its weight, even with
            opposite signs.

        Returns
        -------
        Reasons with their weights in log-odds, the weightiest first.
        """
        comparer, model = self.table.comparer, self.trained.pairs
        found = comparer.compute(np.array([one]), np.array([other]))
        summary = comparer.summary(found)[0]
        parts = (scales(found)[0] * model.weights[2:]).reshape(-1, PER_COMPARISON).sum(axis=1)
        agreement = model.weights[1] * model.levels.parts(summary[None])[0]
        reasons = [_reason(START, np.nan, model.weights[0] + model.weights[1] * model.levels.prior)]
        if by_column:
            own = [float(parts[comparer.of(name)].sum()) for name in comparer.columns]
            reasons += map(_reason, comparer.columns, summary, agreement + own)
            rest = slice(len(comparer.comparisons), None)
            if len(parts[rest]):
                reasons.append(_reason("rivals", found[0, rest].mean(), parts[rest].sum()))
        else:
            reasons += map(_reason, [f"{name}: agreement" for name in comparer.columns], summary, agreement)
            reasons += map(_reason, comparer.names, found[0], parts)
        return sorted(reasons, key=lambda reason: -abs(reason.weight))[:most]

    # ----------------------------------------------------------------------------------------------- writing

    def write(self, path: PathLike) -> None:
        """The records with their cluster, its confidence and their own, as CSV."""
        header = [*self.records.names, *_fresh(self.records.names, ("cluster_id", "cluster_confidence", "confidence"))]
        with atomic_write(path) as out:
            out.write(csv_line(header))
            for row, cells in enumerate(zip(*self.records.columns, strict=True)):
                cluster = int(self.clusters[row])
                sure = f"{self.cluster_confidence[cluster]:.4f}", f"{self.confidence[row]:.4f}"
                out.write(csv_line([*cells, cluster, *sure]))

    def write_links(self, path: PathLike) -> None:
        """The pairs that are in one cluster, as CSV: two ids and the probability."""
        with atomic_write(path) as out:
            out.write(csv_line(["id_1", "id_2", "probability"]))
            for one, other, probability in self.links():
                out.write(csv_line([self.names[one], self.names[other], f"{probability:.4f}"]))

    def write_canonical(self, path: PathLike) -> None:
        """One record for each cluster, as CSV."""
        sizes = np.bincount(self.clusters)
        more = _fresh(self.records.names, ("cluster_id", "records", "cluster_confidence"))
        with atomic_write(path) as out:
            out.write(csv_line([*more, *self.records.names]))
            for cluster in range(len(sizes)):
                told = [cluster, int(sizes[cluster]), f"{self.cluster_confidence[cluster]:.4f}"]
                out.write(csv_line([*told, *self.canonical(cluster).values()]))

    def to_json(self) -> dict[str, Any]:
        sizes = np.bincount(self.clusters)
        return {
            "records": len(self.clusters),
            "clusters": len(sizes),
            "duplicates": int(len(self.clusters) - len(sizes)),
            "pairs_compared": len(self.table.one),
            "method": self.trained.method.value,
            "largest": [vars(each) for each in self.largest(5)],
        }


def _reason(what: str, similarity: float, weight: float) -> Reason:
    return Reason(what, None if np.isnan(similarity) else float(similarity), float(weight))


def _of_links(parts: CandidateParts, clusters: Integers, threshold: float) -> Floats:
    """The probability of each pair; that no better partner is left speaks for a link, by what the threshold is below 0:
    there a link is as likely right as wrong."""
    one, other = parts.pairs
    linked = clusters[one] == clusters[other]
    found: Floats = expit(parts.logit - np.where(linked, min(threshold, 0.0), 0.0))
    return found


def _fresh(taken: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names of columns that the table does not have yet."""
    return [
        name if name not in taken else next(f"{name}_{n}" for n in range(2, 99) if f"{name}_{n}" not in taken)
        for name in names
    ]
