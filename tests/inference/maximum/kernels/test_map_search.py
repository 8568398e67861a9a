"""The moves of local search and the rounding of messages, against plain Python and enumeration."""

from __future__ import annotations

from collections import deque
from itertools import product

import numpy as np
import pytest

from loopwise.inference.gibbs.kernels.gibbs import FactorArrays, seed_stream
from loopwise.inference.gibbs.method import factor_arrays
from loopwise.inference.maximum.kernels.map_search import (
    climb,
    climb_pairs,
    combine,
    improve_tree,
    kick_and_repair,
    random_restarts,
    total_score,
    workspace,
)
from loopwise.inference.maximum.method import softened
from oracles.map_cases import plain_score, random_problem, sizes_of

SEEDS = range(12)


def random_values(arrays: FactorArrays, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(sizes_of(arrays)).astype(np.int64)


def plain_icm(arrays: FactorArrays, values: np.ndarray) -> np.ndarray:
    """ICM with a queue: a variable whose neighbour changed is looked at again."""
    values, waiting = values.copy(), deque(range(len(values)))
    scopes = [
        arrays.edge_variable[arrays.factor_edge_start[f] : arrays.factor_edge_start[f + 1]].tolist()
        for f in range(len(arrays.table_start))
    ]
    while waiting:
        variable = waiting.popleft()
        scores = []
        for value in range(sizes_of(arrays)[variable]):
            trial = values.copy()
            trial[variable] = value
            scores.append(plain_score(arrays, trial))
        if max(scores) > scores[values[variable]] + 1e-9:
            values[variable] = int(np.argmax(scores))
            edges = arrays.variable_edges[
                arrays.variable_edge_start[variable] : arrays.variable_edge_start[variable + 1]
            ]
            for other in [v for edge in edges for v in scopes[arrays.edge_factor[edge]] if v != variable]:
                if other not in waiting:
                    waiting.append(other)
    return values


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_and_icm_are_those_of_plain_python(seed: int) -> None:
    hard = factor_arrays(random_problem(seed, zeros=0.3), 1.0)
    soft = softened(hard)
    values = random_values(soft, seed)
    for arrays in (hard, soft):
        assert total_score(arrays, 0, values) == pytest.approx(plain_score(arrays, values))
    expected = plain_icm(soft, values)
    climb(soft, 0, values, workspace(soft))
    assert values.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_after_pairs_no_two_variables_of_a_factor_can_be_improved(seed: int) -> None:
    arrays = softened(factor_arrays(random_problem(seed, zeros=0.2), 1.0))
    values = random_values(arrays, seed)
    climb_pairs(arrays, 0, values, workspace(arrays))
    found, sizes = plain_score(arrays, values), sizes_of(arrays)
    for factor in range(len(arrays.table_start)):
        scope = arrays.edge_variable[arrays.factor_edge_start[factor] : arrays.factor_edge_start[factor + 1]]
        for one, two in product(scope, scope):
            for changed in product(range(sizes[one]), range(sizes[two])):
                trial = values.copy()
                trial[[one, two]] = changed
                assert plain_score(arrays, trial) <= found + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_gets_its_best_values_given_the_rest(seed: int) -> None:
    arrays = softened(factor_arrays(random_problem(seed, zeros=0.2), 1.0))
    work, generator = workspace(arrays), np.empty(4, dtype=np.uint64)
    seed_stream(generator, seed, 0)
    for root in range(7):
        values = random_values(arrays, seed)
        before, old = plain_score(arrays, values), values.copy()
        work.order[:] = -1
        gain, logged = improve_tree(arrays, 0, root, 7, values, generator, work, 0)
        assert plain_score(arrays, values) == pytest.approx(before + gain, abs=1e-6)
        members = [int(variable) for variable in work.order if variable >= 0]
        best = -np.inf
        for changed in product(*(range(sizes_of(arrays)[v]) for v in members)):
            trial = values.copy()
            trial[members] = changed
            best = max(best, plain_score(arrays, trial))
        assert plain_score(arrays, values) == pytest.approx(best, abs=1e-6)
        assert (work.place == -1).all() and not work.waiting.any()
        for place in range(logged - 1, -1, -1):  # the log leads back
            values[work.changed[place]] = work.before[place]
        assert values.tolist() == old.tolist()


@pytest.mark.parametrize("loss", [0.0, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_kicks_never_lose_the_best_they_met(seed: int, loss: float) -> None:
    arrays = softened(factor_arrays(random_problem(seed, zeros=0.2), 1.0))
    work, generator, values = workspace(arrays), np.empty(4, dtype=np.uint64), random_values(arrays, seed)
    seed_stream(generator, seed, 0)
    best, top = values.copy(), plain_score(arrays, values)
    for _ in range(20):
        kick_and_repair(arrays, 0, 20, loss, values, best, generator, work)
        if loss == 0.0:
            assert plain_score(arrays, best) >= top - 1e-6
        top = max(top, plain_score(arrays, best))
        assert plain_score(arrays, best) >= plain_score(arrays, values) - 1e-6
    assert top >= plain_score(arrays, plain_icm(arrays, random_values(arrays, seed))) - 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_combining_is_at_least_as_good_as_both(seed: int) -> None:
    arrays = softened(factor_arrays(random_problem(seed, zeros=0.2), 1.0))
    work, one, other = workspace(arrays), random_values(arrays, seed), random_values(arrays, seed + 100)
    scores = plain_score(arrays, one), plain_score(arrays, other)
    gain = combine(arrays, 0, one, other, work)
    assert plain_score(arrays, one) == pytest.approx(scores[0] + gain, abs=1e-6)
    assert plain_score(arrays, one) >= max(scores) - 1e-6
    assert (work.place == -1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_restarts_keep_the_best_and_their_seed(seed: int) -> None:
    hard = factor_arrays(random_problem(seed), 1.0)
    soft = softened(hard)
    found = []
    for count in (3, 3, 30):
        best = random_values(soft, seed)
        start = plain_score(soft, best)
        top = random_restarts(hard, soft, 0, 0, count, seed, best, workspace(soft))
        assert top == pytest.approx(plain_score(soft, best)) and top >= start
        found.append(best.tolist())
    assert found[0] == found[1] and plain_score(soft, np.array(found[2])) >= plain_score(soft, np.array(found[0]))
