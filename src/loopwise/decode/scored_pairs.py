"""Clusters decided from scored pairs: the components that pairs form, average linkage within them, clusters
joined by the best links of their records, one-to-one links.

In: candidate pairs of records with logits. Out: :class:`Graph`, :class:`CandidateParts`, the cluster of each record.
Stage: decision. No component is larger than ``LARGEST``, so that no chain of doubtful pairs makes one cluster of a
whole table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loopwise.decode.kernels import linkage
from loopwise.graph.offsets import starts_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Score = Callable[[Integers, Integers], Floats]

LARGEST = 1000  # records of a component
DOUBT = -3.0  # logits below this hold nothing together: one in twenty
UNLINKED = -12.0  # logit that a pair counts for which is not compared, where clusters are joined
CLOSE = 600_000  # pairs that may be added within components, or CLOSE_EACH a record
CLOSE_EACH = 10


@dataclass(frozen=True, eq=False)
class Graph:
    """Pairs of ``size`` records with the logit of their being the same; each pair once, ``one < other``."""

    size: int
    one: Integers
    other: Integers
    logit: Floats

    def take(self, chosen: NDArray[np.bool_]) -> Graph:
        """Some of the pairs."""
        return Graph(self.size, self.one[chosen], self.other[chosen], self.logit[chosen])


@dataclass(frozen=True, eq=False)
class CandidateParts:
    """Components of two records and more. Part c has the records ``records[starts[c]:starts[c + 1]]``, ascending, and
    the pairs from ``pair_starts[c]`` on, whose ``one`` and ``other`` count within the part."""

    size: int
    records: Integers
    starts: Integers
    one: Integers
    other: Integers
    logit: Floats
    pair_starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """The two records of each pair, as rows of the table."""
        base = np.repeat(self.starts[:-1], np.diff(self.pair_starts))
        return self.records[base + self.one], self.records[base + self.other]

    def above(self, zero: float) -> CandidateParts:
        """The same, logits counted from ``zero``."""
        return replace(self, logit=self.logit - zero)


def cut_components(graph: Graph, threshold: float = DOUBT) -> Integers:
    """The component of each record by pairs at or above ``threshold``, none larger than ``LARGEST``: pairs join
    components best first, and one that would make a component too large is passed over."""
    held = np.flatnonzero(graph.logit >= threshold)
    order = held[np.argsort(-graph.logit[held], kind="stable")]
    label: Integers = linkage.capped_components(graph.size, graph.one, graph.other, order, LARGEST)
    return label


def closed(graph: Graph, score: Score, side: Integers) -> Graph:
    """The graph with the pairs that are missing within its components, smallest components first, scored.

    Linear: at most ``CLOSE`` pairs or ``CLOSE_EACH`` a record are added.
    """
    label = cut_components(graph)
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label, minlength=graph.size)
    present = np.bincount(label[graph.one[label[graph.one] == label[graph.other]]], minlength=graph.size)
    missing = np.where(sizes > 2, sizes * (sizes - 1) // 2 - present, 0)
    by_size = np.argsort(sizes, kind="stable")
    budget = max(CLOSE, CLOSE_EACH * graph.size)
    allowed = np.zeros(graph.size, dtype=np.bool_)
    allowed[by_size] = (np.cumsum(missing[by_size]) <= budget) & (missing[by_size] > 0)
    starts = starts_of(sizes)
    found = [graph.one * graph.size + graph.other]
    for part in np.flatnonzero(allowed):
        members = np.sort(order[starts[part] : starts[part + 1]])
        first, second = np.triu_indices(len(members), 1)
        found.append(members[first] * graph.size + members[second])
    codes = np.unique(np.concatenate(found))
    known = graph.one * graph.size + graph.other
    new = codes[~np.isin(codes, known)]
    one, other = np.divmod(new, max(graph.size, 1))
    apart = (side[one] < 0) | (side[one] != side[other])
    one, other = one[apart], other[apart]
    logit = np.concatenate([graph.logit, score(one, other)])
    one, other = np.concatenate([graph.one, one]), np.concatenate([graph.other, other])
    order = np.argsort(one * graph.size + other, kind="stable")
    return Graph(graph.size, one[order], other[order], logit[order])


def parts_of(graph: Graph) -> CandidateParts:
    """The components of two records and more, with all pairs within them."""
    label = cut_components(graph)
    sizes = np.bincount(label, minlength=graph.size)
    kept = np.flatnonzero(sizes[label] > 1)
    records = kept[np.argsort(label[kept], kind="stable")]
    names, first = np.unique(label[records], return_index=True)
    starts = np.concatenate([first, [len(records)]]).astype(np.int64)
    number = np.full(graph.size, -1, dtype=np.int64)
    number[records] = np.repeat(np.arange(len(names)), np.diff(starts))
    within = np.zeros(graph.size, dtype=np.int64)
    within[records] = np.arange(len(records)) - starts[number[records]]
    inside = (label[graph.one] == label[graph.other]) & (number[graph.one] >= 0)
    chosen = graph.take(inside)
    order = np.argsort(number[chosen.one], kind="stable")
    one, other, logit = chosen.one[order], chosen.other[order], chosen.logit[order]
    counts = np.bincount(number[one], minlength=len(names))
    pair_starts = starts_of(counts)
    return CandidateParts(graph.size, records, starts, within[one], within[other], logit, pair_starts)


def average_clusters(parts: CandidateParts, threshold: float, missing: float) -> Integers:
    """Clusters by average linkage of logits in each part; each is named by its smallest record."""
    labels = np.zeros(len(parts.records), dtype=np.int64)
    linkage.link_components(
        parts.starts, parts.pair_starts, parts.one, parts.other, parts.logit, threshold, missing, labels
    )
    return whole(parts, labels)


def joined_clusters(parts: CandidateParts, labels: Integers, threshold: float) -> Integers:
    """Clusters of several records joined where they are linked through and through: the mean over the records of each
    of their best link to the other is ``threshold`` at least, both ways. Best first; named by the smallest record.

    An entity that is written in a few ways has clusters whose pairs mostly differ, so that their mean keeps them apart,
    while nearly every record has a partner on the other side. One link alone joins nothing. A round is linear in the
    pairs, but for sorting those of clusters that a link of ``threshold`` holds.
    """
    found = labels.copy()
    while True:
        one, other, mean = _mutual_links(parts, found, threshold)
        joins = mean >= threshold
        if not joins.any():
            return found
        one, other = one[joins], other[joins]
        order = np.argsort(-mean[joins], kind="stable")
        keep = np.zeros(len(one), dtype=np.bool_)
        linkage.match_one_to_one(order, one, other, np.zeros(parts.size, dtype=np.bool_), keep)
        name = np.arange(parts.size)
        name[other[keep]] = one[keep]
        found = name[found]


def _mutual_links(parts: CandidateParts, labels: Integers, threshold: float) -> tuple[Integers, Integers, Floats]:
    """Pairs of clusters of several records, the smaller name first, and the mean of best links, the lower of both ways;
    what is not compared counts as the surest difference."""
    one, other = parts.pairs
    first, second, size = labels[one], labels[other], parts.size
    several = np.bincount(labels, minlength=size) > 1
    across = np.flatnonzero((first != second) & several[first] & several[second])
    codes = np.minimum(first[across], second[across]) * size + np.maximum(first[across], second[across])
    logit = parts.logit[across]
    held = np.isin(codes, np.unique(codes[logit >= threshold]))
    across, logit = across[held], logit[held]
    record = np.concatenate([one[across], other[across]])
    key = record * size + np.concatenate([second[across], first[across]])
    order = np.lexsort((np.concatenate([-logit, -logit]), key))
    key, best = key[order], np.concatenate([logit, logit])[order]
    leads = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, dtype=np.bool_)
    record, cluster = np.divmod(key[leads], max(size, 1))
    ways, number = np.unique(labels[record] * size + cluster, return_inverse=True)
    total = np.bincount(number.reshape(-1), weights=best[leads] - UNLINKED, minlength=len(ways))
    mine, theirs = np.divmod(ways, max(size, 1))
    mean = total / np.bincount(labels, minlength=size)[mine] + UNLINKED
    mean = np.minimum(mean, mean[np.searchsorted(ways, theirs * size + mine)])
    once = mine < theirs
    return mine[once], theirs[once], mean[once]


def whole(parts: CandidateParts, labels: Integers) -> Integers:
    """The clusters of all records, from the clusters within parts."""
    out = np.arange(parts.size)
    own = np.repeat(np.arange(len(parts)), np.diff(parts.starts))
    _, names = np.unique(own * (LARGEST + 1) + labels, return_inverse=True)
    least = np.full(names.max(initial=-1) + 1, parts.size, dtype=np.int64)
    np.minimum.at(least, names, parts.records)
    out[parts.records] = least[names]
    return out


def matched_clusters(graph: Graph, threshold: float) -> Integers:
    """One-to-one links, best first: each record is linked to at most one other."""
    chosen = graph.take(graph.logit >= threshold)
    keep = np.zeros(len(chosen.one), dtype=np.bool_)
    order = np.argsort(-chosen.logit, kind="stable")
    linkage.match_one_to_one(order, chosen.one, chosen.other, np.zeros(graph.size, dtype=np.bool_), keep)
    found: Integers = linkage.components(graph.size, chosen.one, chosen.other, keep)
    return found
