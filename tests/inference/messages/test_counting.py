"""Counting numbers: edge appearance probabilities, concavity."""

from __future__ import annotations

from itertools import combinations, pairwise
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch

from loopwise.graph import FactorGraph, chain, complete, grid, random_mrf, union
from loopwise.inference.messages.counting import (
    Bethe,
    Counting,
    ExplicitCounting,
    MonotonicChains,
    Reweighted,
    SpanningTrees,
    check_concavity,
    concave_scaling,
    effective_resistance,
)
from loopwise.inference.messages.message_passing import TRW
from loopwise.inference.messages.schedules import Flooding, Sequential
from oracles.trw_cases import GRAPHS, normal_tables


@pytest.mark.parametrize(
    ("graph", "rule", "scale"),
    [(grid(5, 6, 3), Reweighted(0.5), 3.0), (random_mrf(15, 40, 2, unary=True, seed=3), MonotonicChains(), 0.5)],
    ids=["grid", "chains"],
)
def test_trw_s_is_monotone_and_ends_where_damped_flooding_ends(
    graph: FactorGraph, rule: Counting, scale: float
) -> None:
    """The dual value falls with every sequential sweep (Kolmogorov 2006)."""
    tables = normal_tables(graph, 7, scale)
    final = TRW(rho=rule, schedule=Flooding(), damping=0.5, iterations=20000, tolerance=1e-12)(graph, tables)
    bounds = [
        dual_bound(
            graph, tables, rule, TRW(rho=rule, schedule=Sequential(), iterations=k, tolerance=0)(graph, tables).messages
        )
        for k in range(1, 12)
    ]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(bounds))
    swept = TRW(rho=rule, schedule=Sequential(), iterations=3000, tolerance=1e-12)(graph, tables)
    torch.testing.assert_close(swept.states, final.states, rtol=0, atol=1e-8)
    assert bounds[-1] >= final.log_partition.item() - 1e-6


def dual_bound(graph: FactorGraph, tables: dict[str, torch.Tensor], rule: Counting, messages: torch.Tensor) -> float:
    """sum_a c log Z_a + sum_i c_i log Z_i of the reparametrisation that the messages make: what TRW-S lowers."""
    layout = graph.layout
    numbers = rule.numbers(graph)
    group = layout.message_groups[0].group
    states = group.shape[0]
    c = torch.tensor(numbers.factor)
    m = messages.reshape(group.count, 2, states) * c[:, None, None]  # back to m = c M
    scopes = torch.tensor(group.scopes)
    total = tables["unary"].clone() if "unary" in tables else torch.zeros(graph.variables, states).double()
    total = total.index_add(0, scopes.reshape(-1), m.reshape(-1, states))
    n = c[:, None, None] * total[scopes] - m
    factor = tables[group.name] + n[:, 0, :, None] + n[:, 1, None, :]
    value = (c * torch.logsumexp(factor.flatten(1) / c[:, None], 1)).sum()
    own = torch.tensor(numbers.variable(layout))
    return float(value + (own * torch.logsumexp(total, 1)).sum())


def test_effective_resistance_is_the_frequency_in_all_spanning_trees() -> None:
    pairs = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [0, 2], [3, 4]])
    variables = 5
    counts, trees = np.zeros(len(pairs)), 0
    for chosen in combinations(range(len(pairs)), variables - 1):
        parent = list(range(variables))

        def find(node: int, parent: list[int] = parent) -> int:
            while parent[node] != node:
                node = parent[node]
            return node

        for edge in chosen:
            parent[find(pairs[edge, 0])] = find(pairs[edge, 1])
        if len({find(node) for node in range(variables)}) == 1:
            trees += 1
            counts[list(chosen)] += 1
    np.testing.assert_allclose(effective_resistance(variables, pairs), counts / trees, atol=1e-12)


@pytest.mark.parametrize("rule", [SpanningTrees(), SpanningTrees(exact_limit=0, trees=20)], ids=["exact", "sampled"])
def test_spanning_tree_rho_is_valid(rule: SpanningTrees) -> None:
    graph = random_mrf(20, 45, 2, seed=5)
    numbers = rule.numbers(graph)
    assert (numbers.factor > 0).all()
    assert (numbers.factor <= 1 + 1e-12).all()
    edges = {tuple(sorted(scope)) for scope in graph.group("pair").scopes.tolist()}
    parent = list(range(20))

    def find(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for i, j in edges:
        parent[find(i)] = find(j)
    components = len({find(node) for node in range(20)})
    assert numbers.factor.sum() == pytest.approx(20 - components)
    assert check_concavity(graph, rule)


def test_parallel_edges_share_their_probability() -> None:
    graph = FactorGraph([2, 2, 2], {"pair": [[0, 1], [1, 0], [1, 2]]})
    np.testing.assert_allclose(SpanningTrees().numbers(graph).factor, [0.5, 0.5, 1.0])


@pytest.mark.parametrize(
    ("graph", "rule", "concave"),
    [
        (grid(3, 3), Bethe(), False),
        (grid(1, 4), Bethe(), True),
        (FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2], [0, 2]]}), Bethe(), True),  # one cycle: Heskes' condition holds
        (grid(3, 3), Reweighted(0.5), True),
        (complete(6), Reweighted(0.9), False),
        (GRAPHS["triples"], SpanningTrees(), True),
        (grid(3, 3), ExplicitCounting({"pair": 1.0}, 0.0), True),
    ],
    ids=str,
)
def test_concavity(graph: FactorGraph, rule: Counting, concave: bool) -> None:
    answer = check_concavity(graph, rule)
    assert bool(answer) == concave
    assert (answer.slack >= -1e-9) == concave


def test_concave_scaling_passes_and_is_not_wasteful() -> None:
    graph = complete(6)
    rule = concave_scaling(graph, Bethe())
    assert check_concavity(graph, rule)
    factor = rule.numbers(graph).factor
    assert (factor == factor[0]).all()
    assert not check_concavity(graph, Reweighted(float(factor[0]) * 1.01))
    np.testing.assert_allclose(rule.numbers(graph).total, 1.0)


@pytest.mark.parametrize(
    ("rho", "words"),
    [
        (0.0, "rho must be positive"),
        ({"other": 0.5}, "no rho for group 'pair'"),
        ({"pair": [0.5, 0.5]}, "not one number or 12"),
        (ExplicitCounting({"pair": 1.0}, -5.0), "variable 0 and its factors add up to -3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_rho(rho: object, words: str) -> None:
    graph = grid(3, 3)
    with pytest.raises(ValueError, match=words):
        TRW(rho=rho)(graph, {"unary": torch.zeros(9, 2), "pair": torch.zeros(12, 2, 2)})  # type: ignore[arg-type]


def test_parts_of_a_union_keep_the_probabilities_they_have_alone() -> None:
    parts = [grid(2, 3), chain(4), complete(4), grid(3, 3)]
    whole = union(parts)
    for rule in (SpanningTrees(), SpanningTrees(exact_limit=3)):
        alone = np.concatenate([rule.numbers(part).factor for part in parts])
        np.testing.assert_allclose(rule.numbers(whole.graph).factor, alone, atol=1e-12)


def test_what_is_kept_of_counting_numbers_stays_in_its_process() -> None:
    """Pickled for another process, a tensor becomes shared memory, and arrays that look at it see what was freed."""
    graph, like = chain(4), torch.zeros(1)
    numbers = Bethe().numbers(graph)
    ones = numbers.exponents(graph.layout, like)
    looking = ones.numpy()
    copied = ForkingPickler.loads(ForkingPickler.dumps(graph))
    assert not ones.is_shared() and (looking == 1).all()
    assert Bethe().numbers(copied).kept == {}
    assert torch.equal(Bethe().numbers(copied).exponents(copied.layout, like), ones)
