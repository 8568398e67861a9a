"""Ready-made graphs: counts, neighbours, and random scopes that are distinct, uniform and repeatable."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from loopwise.graph import FactorGraph, chain, complete, grid, random_mrf


def pairs_of(graph: FactorGraph) -> list[tuple[int, ...]]:
    return [tuple(scope) for scope in graph.group("pair").scopes.tolist()]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_chain(length: int) -> None:
    graph = chain(length, states=3)
    assert graph.cardinalities.tolist() == [3] * length
    assert graph.group("unary").scopes[:, 0].tolist() == list(range(length))
    assert pairs_of(graph) == [(first, first + 1) for first in range(length - 1)]
    assert graph.group("pair").shape == (3, 3)


@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (4, 1), (2, 2), (3, 4)])
def test_grid_joins_exactly_the_neighbours(rows: int, columns: int, neighbours: int) -> None:
    graph = grid(rows, columns, states=2, neighbours=neighbours)
    expected = set()
    for (r, c), (s, d) in combinations([(r, c) for r in range(rows) for c in range(columns)], 2):
        steps = abs(r - s) + abs(c - d)
        if steps == 1 or (neighbours == 8 and max(abs(r - s), abs(c - d)) == 1):
            expected.add(frozenset((r * columns + c, s * columns + d)))
    ours = pairs_of(graph)
    assert len(ours) == len(expected)
    assert {frozenset(pair) for pair in ours} == expected
    if neighbours == 4:
        assert len(ours) == rows * (columns - 1) + (rows - 1) * columns
    assert graph.group("unary").scopes[:, 0].tolist() == list(range(rows * columns))


def test_grid_lists_rows_then_columns_then_diagonals() -> None:
    steps = [second - first for first, second in pairs_of(grid(3, 5, neighbours=8))]
    assert steps == [1] * 12 + [5] * 10 + [6] * 8 + [4] * 8


@pytest.mark.parametrize("variables", [1, 2, 6])
def test_complete(variables: int) -> None:
    assert pairs_of(complete(variables)) == list(combinations(range(variables), 2))


# 10 of 2 and the full 45 choose among all; 2000 of 3 draw and reject; 25 of 12 shuffle.
@pytest.mark.parametrize(
    ("variables", "edges", "arity"), [(10, 20, 2), (10, 45, 2), (300, 2000, 3), (25, 100, 12), (6, 0, 2)]
)
def test_random_scopes_are_distinct_sorted_and_repeatable(variables: int, edges: int, arity: int) -> None:
    def draw(seed: int) -> np.ndarray:
        graph = random_mrf(variables, edges, arity=arity, seed=seed)
        return graph.group("pair" if arity == 2 else "factor").scopes

    scopes = draw(3)
    assert scopes.shape == (edges, arity)
    assert (np.diff(scopes, axis=1) > 0).all()
    assert len({tuple(scope) for scope in scopes.tolist()}) == edges
    assert np.array_equal(scopes, draw(3))
    if 0 < edges < math.comb(variables, arity):
        assert not np.array_equal(scopes, draw(4))


@pytest.mark.parametrize(("variables", "edges", "arity"), [(12, 20, 2), (250, 2000, 2), (25, 1000, 12)])
def test_random_scopes_are_uniform_over_variables(variables: int, edges: int, arity: int) -> None:
    draws = 40
    counts = np.zeros(variables)
    for seed in range(draws):
        name = "pair" if arity == 2 else "factor"
        scopes = random_mrf(variables, edges, arity=arity, seed=seed).group(name).scopes
        counts += np.bincount(scopes.reshape(-1), minlength=variables)
    mean = draws * edges * arity / variables
    # A scope has a variable with probability arity / variables; not replacing scopes lowers the variance.
    deviation = math.sqrt(mean * (1 - arity / variables))
    assert np.abs(counts - mean).max() < 5 * deviation


def test_random_pairs_are_uniform_over_pairs() -> None:
    draws, edges, pairs = 600, 4, list(combinations(range(6), 2))
    counts = dict.fromkeys(pairs, 0)
    for seed in range(draws):
        for pair in pairs_of(random_mrf(6, edges, seed=seed)):
            counts[pair] += 1
    share = edges / len(pairs)
    worst = max(abs(count - draws * share) for count in counts.values())
    assert worst < 5 * math.sqrt(draws * share * (1 - share))


def test_random_mrf_has_unaries_only_when_asked() -> None:
    assert [group.name for group in random_mrf(5, 4, seed=0).groups] == ["pair"]
    assert [group.name for group in random_mrf(5, 4, states=3, unary=True, seed=0).groups] == [
        "unary",
        "pair",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chain(0), "length must be a whole number of at least 1, not 0"),
        (lambda: grid(0, 3), "rows must be a whole number of at least 1, not 0"),
        (lambda: grid(3, -1), "columns must be a whole number of at least 1, not -1"),
        (lambda: grid(2, 2, neighbours=6), "neighbours must be 4 or 8, not 6"),
        (lambda: complete(0), "variables must be a whole number of at least 1"),
        (lambda: chain(2, states=0), "cardinality 0"),
        (lambda: random_mrf(4, 7, seed=0), "7 distinct scopes of 2 among 4 variables: there are only 6"),
        (lambda: random_mrf(4, -1, seed=0), "-1 distinct scopes"),
        (lambda: random_mrf(4, 1, arity=5, seed=0), r"arity must be from 2 to .* \(4\), not 5"),
        (lambda: random_mrf(4, 1, arity=1, seed=0), "arity must be from 2"),
    ],
)
def test_builders_refuse(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
