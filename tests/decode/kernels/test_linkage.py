"""Components and average linkage against SciPy and plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from loopwise.decode.kernels.linkage import (
    average_linkage,
    capped_components,
    components,
    link_components,
    match_one_to_one,
)


def partition(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_of_a_graph(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, other = random.integers(0, 40, (2, 50))
    keep = random.random(50) < 0.5
    found = components(40, one, other, keep)
    graph = coo_matrix((np.ones(keep.sum()), (one[keep], other[keep])), shape=(40, 40))
    assert partition(found) == partition(connected_components(graph, directed=False)[1])
    assert all(found[item] == np.flatnonzero(found == found[item])[0] for item in range(40)), "the smallest member"


@pytest.mark.parametrize("most", [1, 3, 7, 40])
def test_no_component_is_larger_than_allowed(most: int) -> None:
    random = np.random.default_rng(most)
    one, other = random.integers(0, 40, (2, 200))
    order = random.permutation(200)
    found = capped_components(40, one, other, order, most)
    members = {item: {item} for item in range(40)}
    for pair in order.tolist():
        first, second = members[one[pair]], members[other[pair]]
        if first is not second and len(first) + len(second) <= most:
            first |= second
            for item in second:
                members[item] = first
    assert partition(found) == {frozenset(own) for own in members.values()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.5])
def test_average_linkage_is_scipys(seed: int, threshold: float) -> None:
    """With a score for every pair: clusters whose mean distance is at most that of the threshold."""
    size, random = 12, np.random.default_rng(seed)
    one, other = np.triu_indices(size, 1)
    score = random.normal(size=len(one))
    labels = np.zeros(size, dtype=np.int64)
    average_linkage(size, one, other, score, threshold, 0.0, labels)
    far = score.max() - score
    theirs = fcluster(linkage(squareform(squareform(far)), "average"), score.max() - threshold, "distance")
    assert partition(labels) == partition(theirs)


def test_pairs_without_a_score_count_as_missing() -> None:
    """{0, 1} at 4 first; 2 then has 3 with 0, and the missing one with 1: (3 + missing) / 2."""
    one, other, score = np.array([0, 0]), np.array([1, 2]), np.array([4.0, 3.0])
    for missing, clusters in ((0.0, [0, 0, 0]), (-6.0, [0, 0, 2])):
        labels = np.zeros(3, dtype=np.int64)
        average_linkage(3, one, other, score, 1.0, missing, labels)
        assert labels.tolist() == clusters


def test_each_component_by_itself() -> None:
    starts, pair_starts = np.array([0, 2, 5]), np.array([0, 1, 3])
    one, other, score = np.array([0, 0, 1]), np.array([1, 1, 2]), np.array([1.0, -1.0, 2.0])
    labels = np.full(5, 9)
    link_components(starts, pair_starts, one, other, score, 0.0, 0.0, labels)
    assert labels.tolist() == [0, 0, 0, 1, 1]


def test_a_greedy_matching_leaves_no_free_pair() -> None:
    random = np.random.default_rng(3)
    one, other = random.integers(0, 15, 60), 15 + random.integers(0, 15, 60)
    order, keep = random.permutation(60), np.zeros(60, dtype=np.bool_)
    match_one_to_one(order, one, other, np.zeros(30, dtype=np.bool_), keep)
    taken: set[int] = set()
    for pair in order.tolist():
        ends = {int(one[pair]), int(other[pair])}
        assert keep[pair] == (not ends & taken)
        taken |= ends if keep[pair] else set()
