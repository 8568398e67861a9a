"""The moves of local search and the rounding of messages, against plain Python and enumeration."""

from __future__ import annotations

from collections import deque
from itertools import product

import numpy as np
import pytest

from loopwise.graph import FactorGraph
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.gibbs import factor_arrays
from loopwise.inference.maximum import Dual, softened
from loopwise.kernels.gibbs import FactorArrays, seed_stream
from loopwise.kernels.map_dual import round_in_order
from loopwise.kernels.map_search import (
    climb,
    climb_pairs,
    combine,
    improve_tree,
    kick_and_repair,
    random_restarts,
    total_score,
    workspace,
)

SEEDS = range(12)


class _Keep(Inference):
    def run(self, problem: Problem) -> Beliefs:
        self.problem = problem
        raise InterruptedError


def random_problem(seed: int, zeros: float = 0.0) -> Problem:
    """Seven variables of 1 to 5 values, factors of arity 1 to 4, some on the same variables."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 6, 7)
    factors = []
    for _ in range(9):
        scope = tuple(map(int, rng.choice(7, rng.integers(1, 5), replace=False)))
        table = rng.normal(size=[cards[v] for v in scope]) * 2
        table[rng.random(table.shape) < zeros] = -np.inf
        table.flat[0] = 0.0  # all variables at 0 stays possible
        factors.append((scope, table))
    keep = _Keep()
    with pytest.raises(InterruptedError):
        keep(*FactorGraph.from_factors(cards, factors))
    return keep.problem


def plain_score(arrays: FactorArrays, values: np.ndarray) -> float:
    total = sum(arrays.unary[0, arrays.state_start[v] + value] for v, value in enumerate(values))
    for factor, start in enumerate(arrays.table_start):
        edges = range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1])
        total += arrays.tables[start + sum(arrays.edge_stride[e] * values[arrays.edge_variable[e]] for e in edges)]
    return float(total)


def sizes_of(arrays: FactorArrays) -> np.ndarray:
    return np.diff(arrays.state_start)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_fixes_every_variable_at_what_it_sees(seed: int) -> None:
    """Given all others, a variable takes its best value: messages of fixed variables no longer count."""
    problem = random_problem(seed)
    arrays = factor_arrays(problem, 1.0)
    dual = Dual(problem, arrays, 0)
    dual.descend(3)
    values = np.empty(7, dtype=np.int64)
    round_in_order(arrays, 0, dual.sharing.order, dual.messages, dual.sharing.slot_start, values)
    last = int(dual.sharing.order[-1])
    options = []
    for value in range(sizes_of(arrays)[last]):
        trial = values.copy()
        trial[last] = value
        options.append(plain_score(arrays, trial))
    assert plain_score(arrays, values) == pytest.approx(max(options))
