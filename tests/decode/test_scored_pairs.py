"""Candidate pairs: linkage, cuts, closing, links one to one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwise.decode import scored_pairs
from loopwise.decode.scored_pairs import (
    UNLINKED,
    CandidateParts,
    Graph,
    average_clusters,
    closed,
    cut_components,
    joined_clusters,
    matched_clusters,
    parts_of,
)

# ------------------------------------------------------------------------------------------- clusters of pairs


def random_graph(size: int, seed: int) -> Graph:
    random = np.random.default_rng(seed)
    one, other = np.triu_indices(size, 1)
    kept = random.random(len(one)) < 0.5
    return Graph(size, one[kept], other[kept], random.normal(size=int(kept.sum())) * 3)


def plain_average(graph: Graph, threshold: float) -> np.ndarray:
    """Average linkage by looking at all pairs of clusters each time; unscored pairs count as the threshold."""
    score = {(a, b): s for a, b, s in zip(graph.one, graph.other, graph.logit, strict=True)}
    clusters = [[n] for n in range(graph.size)]
    while True:
        best, place = -np.inf, None
        for i, j in itertools.combinations(range(len(clusters)), 2):
            cross = [score.get((min(a, b), max(a, b))) for a in clusters[i] for b in clusters[j]]
            if any(each is not None for each in cross):
                mean = sum(threshold if each is None else each for each in cross) / len(cross)
                if mean > best:
                    best, place = mean, (i, j)
        if place is None or best < threshold:
            break
        clusters[place[0]] += clusters.pop(place[1])
    label = np.zeros(graph.size, dtype=np.int64)
    for members in clusters:
        label[members] = min(members)
    return label


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1.5])
def test_average_linkage_is_that_of_all_pairs(seed: int, threshold: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scored_pairs, "DOUBT", -100.0)
    graph = random_graph(12, seed)
    found = average_clusters(parts_of(graph), threshold, threshold)
    assert found.tolist() == plain_average(graph, threshold).tolist()


def plain_joined(parts: CandidateParts, labels: np.ndarray, threshold: float) -> np.ndarray:
    """The two clusters of several records with the highest mean of best links, joined while that is high enough."""
    score = {}
    for a, b, s in zip(*parts.pairs, parts.logit, strict=True):
        score[a, b] = score[b, a] = s
    found = labels.copy()
    while True:
        clusters = {name: np.flatnonzero(found == name).tolist() for name in np.unique(found)}
        clusters = {name: members for name, members in clusters.items() if len(members) > 1}

        def mean(these: list[int], those: list[int]) -> float:
            return float(np.mean([max(score.get((a, b), UNLINKED) for b in those) for a in these]))

        means = {
            (one, other): min(mean(clusters[one], clusters[other]), mean(clusters[other], clusters[one]))
            for one, other in itertools.combinations(clusters, 2)
        }
        best = max(means, key=means.__getitem__, default=None)
        if best is None or means[best] < threshold:
            return found
        found[found == best[1]] = best[0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threshold", [-2.0, 0.5, 2.0])
def test_clusters_are_joined_by_the_means_of_best_links(
    seed: int, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scored_pairs, "DOUBT", -100.0)
    parts = parts_of(random_graph(16, seed))
    drawn = np.random.default_rng(seed).integers(0, 7, 16)
    begun = np.array([np.flatnonzero(drawn == each)[0] for each in drawn])
    found = joined_clusters(parts, begun, threshold)
    assert found.tolist() == plain_joined(parts, begun, threshold).tolist()
    assert threshold > 0 or len(np.unique(found)) < len(np.unique(begun))


def test_one_link_joins_no_clusters_and_no_link_joins_single_records() -> None:
    """0, 1 and 2, 3 are clusters: with a partner for each record they are one, with one link less they are not."""
    linked = Graph(6, np.array([0, 0, 1, 2, 3]), np.array([1, 2, 3, 3, 4]), np.array([9.0, 3.0, 3.0, 9.0, 8.0]))
    labels = np.array([0, 0, 2, 2, 4, 5])
    assert joined_clusters(parts_of(linked), labels, 2.0).tolist() == [0, 0, 0, 0, 4, 5]
    one_link = linked.take(np.array([True, False, True, True, True]))
    assert joined_clusters(parts_of(one_link), labels, 2.0).tolist() == labels.tolist()


def test_large_components_are_cut_at_their_weakest_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scored_pairs, "LARGEST", 4)
    chain = Graph(8, np.arange(7), np.arange(1, 8), np.array([9.0, 9, 9, -1, 9, 9, 9]))
    assert cut_components(chain).tolist() == [0, 0, 0, 0, 4, 4, 4, 4]
    alike = Graph(8, np.arange(7), np.arange(1, 8), np.full(7, 50.0))
    assert np.bincount(cut_components(alike)).max() == 4
    assert cut_components(chain, 0.0).tolist() == cut_components(chain).tolist()
    assert cut_components(chain, 10.0).tolist() == list(range(8))


def test_closing_scores_what_is_missing_within_components() -> None:
    chain = Graph(5, np.array([0, 1]), np.array([1, 2]), np.array([3.0, 3.0]))
    found = closed(chain, lambda one, other: -(one + other).astype(float), np.full(5, -1))
    assert list(zip(found.one.tolist(), found.other.tolist(), found.logit.tolist(), strict=True)) == [
        (0, 1, 3.0),
        (0, 2, -2.0),
        (1, 2, 3.0),
    ]
    parts = parts_of(found)
    assert len(parts) == 1 and parts.records.tolist() == [0, 1, 2]


def test_one_to_one_links_take_the_best_first() -> None:
    graph = Graph(4, np.array([0, 0, 1]), np.array([2, 3, 2]), np.array([2.0, 1.0, 1.5]))
    assert matched_clusters(graph, 0.0).tolist() == [0, 1, 0, 3]
    assert matched_clusters(graph, 5.0).tolist() == [0, 1, 2, 3]
