"""Columns as variables: intervals, labels, what is missing; and the structures over them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loopwise.apps.table import BySize, ColumnChain, ColumnPairs, ColumnTree, Complete, Grid, ToOutputs
from loopwise.apps.table.model import cells_of, mutual_information
from loopwise.graph.evidence import FREE, Role


def random_rows(seed: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 2, 4]
    values = np.stack([rng.integers(0, size, 200) for size in sizes], axis=1)
    values[:100, 3] = values[:100, 1] + 1  # dependent
    values[50:150, 2] = values[50:150, 0]
    values[rng.random(values.shape) < 0.2] = FREE
    return values, sizes


def test_mutual_information() -> None:
    score = pytest.importorskip("sklearn.metrics").mutual_info_score
    values, sizes = random_rows(0)
    found = mutual_information(values, sizes)
    for one, other in combinations(range(4), 2):
        both = (values[:, one] != FREE) & (values[:, other] != FREE)
        assert found[one, other] == pytest.approx(score(values[both, one], values[both, other]), abs=1e-12)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    values[:, 0] = FREE
    assert (mutual_information(values, sizes)[0] == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_is_the_best_of_all(seed: int) -> None:
    values, sizes = random_rows(seed)
    roles = np.array([Role.INPUT] * 3 + [Role.OUTPUT])
    pairs = ColumnTree().pairs(values, sizes, roles)
    shared = mutual_information(values, sizes)

    def joined(edges: tuple[tuple[int, int], ...]) -> bool:
        reached = {0}
        for _ in range(4):
            reached |= {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
        return len(reached) == 4

    trees = [edges for edges in combinations(list(combinations(range(4), 2)), 3) if joined(edges)]
    assert len(trees) == 16 and joined(tuple(map(tuple, pairs.tolist())))
    best = max(sum(shared[edge] for edge in edges) for edges in trees)
    assert sum(shared[tuple(pair)] for pair in pairs) == pytest.approx(best)


def test_structures() -> None:
    roles = np.array([Role.INPUT, Role.INPUT, Role.OUTPUT, Role.OUTPUT, Role.HIDDEN])
    values, sizes = np.zeros((3, 5), dtype=np.int64), [2] * 5
    hidden = {(0, 4), (1, 4), (2, 4), (3, 4)}

    def pairs(structure: object) -> set[tuple[int, int]]:
        found = structure.pairs(values, sizes, roles)  # type: ignore[attr-defined]
        assert (found[:, 0] != found[:, 1]).all() and len(set(map(tuple, found.tolist()))) == len(found)
        return set(map(tuple, found.tolist()))

    assert pairs(Complete()) == set(combinations(range(4), 2)) | hidden
    assert pairs(ToOutputs()) == {(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)} | hidden
    assert pairs(ColumnChain()) == {(0, 1), (1, 2), (2, 3)} | hidden
    assert pairs(Grid(2, 2)) == {(0, 1), (2, 3), (0, 2), (1, 3)} | hidden
    assert pairs(ColumnPairs(((3, 0), (0, 3), (1, 4)))) == {(0, 3), (1, 4)}
    with pytest.raises(ValueError, match="has 6 places"):
        pairs(Grid(3, 2))


def test_the_structure_goes_by_what_is_missing_and_by_size() -> None:
    roles = np.array([Role.INPUT, Role.INPUT, Role.OUTPUT])
    whole = np.zeros((10, 3), dtype=np.int64)
    holes = whole.copy()
    holes[3, 0] = FREE
    few, every = ([(0, 2), (1, 2)], [(0, 1), (0, 2), (1, 2)])
    for values, limit, pairs in ((whole, 10**9, few), (holes, 10**9, every), (holes, 100, few)):
        found = BySize(cells=limit).pairs(values, [2, 3, 4], roles)
        assert sorted(map(tuple, found.tolist())) == pairs
    assert cells_of(np.array(every), [2, 3, 4], 10) == 10 * (6 + 8 + 12)
