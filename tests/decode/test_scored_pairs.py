"""Candidate pairs: linkage, cuts, closing, links one to one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwise.decode import scored_pairs
from loopwise.decode.scored_pairs import Graph, average_clusters, closed, cut_components, matched_clusters, parts_of

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
