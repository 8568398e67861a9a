"""Joint maxima: never worse than ICM, bounds that hold, claims of optimality that enumeration confirms."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import loopwise as lw
from loopwise.graph import FactorGraph
from loopwise.inference.base import Problem
from loopwise.inference.bethe import score
from loopwise.inference.gibbs.method import factor_arrays
from loopwise.inference.maximum.kernels.map_search import climb, workspace
from loopwise.inference.maximum.method import CLOSED, Dual, finish, relative_gap, softened
from oracles.enumeration import enumerate_model
from oracles.map_cases import glass, problem_of
from oracles.strategies import Model, models

ROUNDING = 1e-9


def best_single_change(problem: Problem, assignment: Tensor) -> float:
    """The score of the best assignment that differs in one variable at most."""
    best = float(score(problem, assignment))
    for variable, size in enumerate(problem.graph.cardinalities):
        for value in range(size):
            changed = assignment.clone()
            changed[variable] = value
            best = max(best, float(score(problem, changed)))
    return best


# ------------------------------------------------------------------------------------------------------- the bound


@settings(max_examples=60, deadline=None)
@given(models(zeros=True, largest_cardinality=5, scale=3.0), st.integers(0, 6))
def test_the_bound_holds_after_any_number_of_sweeps(model: Model, sweeps: int) -> None:
    problem = problem_of(*model)
    best = enumerate_model(*model).best_score - float(problem.constant())
    dual = Dual(problem, factor_arrays(problem, 1.0), 0)
    before = dual.bound
    for _ in range(sweeps):
        dual.descend(1)
        assert dual.bound <= before
        before = dual.bound
    assert dual.bound >= best - 1e-12
    dual.messages[np.isfinite(dual.messages)] += np.random.default_rng(0).normal(size=np.isfinite(dual.messages).sum())
    assert dual._evaluated() >= best - 1e-12  # at any messages whatever


def test_the_bound_is_tight_on_trees_and_loose_on_frustrated_loops() -> None:
    chain = lw.chain(30, states=3)
    tables = {name: table.detach() for name, table in lw.TablePotentials.random(chain, seed=0)().items()}
    found = lw.BP(temperature=0.0, schedule=lw.Sequential())(chain, tables).status.maximum
    assert found is not None and bool(found.optimal) and float(found.gap) <= CLOSED
    triangle = FactorGraph([2, 2, 2], {"differ": [[0, 1], [1, 2], [0, 2]]})
    differ = {"differ": torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)}
    frustrated = lw.BP(temperature=0.0)(triangle, differ).status.maximum
    assert frustrated is not None
    assert float(frustrated.score) == 2.0 and float(frustrated.bound) == pytest.approx(3.0)
    assert float(frustrated.gap) == pytest.approx(1 / 3) and not bool(frustrated.optimal)


def test_relative_gaps() -> None:
    score_, bound = torch.tensor([0.0, -2.0, -torch.inf, 5.0]), torch.tensor([0.0, -1.0, 3.0, 5.0])
    assert relative_gap(score_.double(), bound.double()).tolist() == [0.0, 0.5, math.inf, 0.0]


# ------------------------------------------------------------------------------------------------------ local search


@settings(max_examples=60, deadline=None)
@given(models(zeros=True, scale=2.0), st.integers(0, 2**32 - 1))
def test_finishing_is_never_below_icm_from_the_same_start(model: Model, seed: int) -> None:
    problem = problem_of(*model)
    rng = np.random.default_rng(seed)
    start = [int(rng.integers(size)) for size in problem.graph.cardinalities]
    found, value = finish(problem, [torch.tensor(start, dtype=torch.int64)])
    assert float(value) == pytest.approx(float(score(problem, found)), abs=1e-9)
    assert float(value) >= best_single_change(problem, found) - ROUNDING
    hard = factor_arrays(problem, 1.0)
    soft, climbed = softened(hard), np.array(start, dtype=np.int64)
    climb(soft, 0, climbed, workspace(soft))
    assert float(value) >= float(score(problem, torch.from_numpy(climbed))) - ROUNDING
    assert float(value) > -math.inf  # the models leave one configuration possible


def test_softened_zeros_outweigh_everything() -> None:
    graph = FactorGraph([2, 2], {"unary": [[0], [1]], "pair": [[0, 1]]})
    tables = {
        "unary": torch.tensor([[0.0, 500.0], [0.0, 500.0]]),
        "pair": torch.tensor([[0.0, 1.0], [2.0, -torch.inf]]),
    }
    soft = softened(factor_arrays(problem_of(graph, tables), 1.0))
    assert np.isfinite(soft.tables).all()
    assert soft.tables.min() + 1000.0 < 0.0  # the sum of all others cannot make up for it
    assert lw.BP(temperature=0.0)(graph, tables).assignment.tolist() == [1, 0]


# ------------------------------------------------------------------------------------------------- max-product, search


@pytest.mark.parametrize("engine", [lw.inference.Compiled(), lw.inference.Reference()], ids=["compiled", "reference"])
@pytest.mark.parametrize("method", [lw.BP, lw.TRW])
def test_max_product_ends_at_a_local_optimum(method: type[lw.BP], engine: lw.inference.Compiled) -> None:
    for seed in range(5):
        graph, tables = glass(8, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lw.notices.ConvergenceWarning)
            beliefs = method(temperature=0.0, iterations=20, engine=engine)(graph, tables)
        problem = problem_of(graph, tables)
        assert float(beliefs.log_partition) >= best_single_change(problem, beliefs.assignment) - ROUNDING
        maximum, best = beliefs.status.maximum, lw.Exact(temperature=0.0)(graph, tables)
        assert maximum is not None
        assert (
            float(beliefs.log_partition) <= float(best.log_partition) + ROUNDING <= float(maximum.bound) + 2 * ROUNDING
        )


def test_nobody_pays_who_does_not_ask() -> None:
    beliefs = lw.BP(temperature=0.0, schedule=lw.Sequential())(*glass(3))
    maximum = beliefs.status.maximum
    assert maximum is not None and not maximum.known and "score" not in str(beliefs.status)
    assert beliefs.assignment.shape == (9,) and maximum.known and not maximum.bounded
    assert "score" in str(beliefs.status) and "bound" not in str(beliefs.status)
    _ = maximum.gap
    assert "upper bound" in str(beliefs.status)
    assert lw.BP()(*glass(3)).status.maximum is None


def test_offsets_do_not_make_a_gap_look_closed() -> None:
    """What all assignments share says nothing of how good one is."""
    rng = np.random.default_rng(0)
    graph = lw.FactorGraph([2] * 16, {"unary": [[v] for v in range(16)], "pair": lw.grid(4, 4).group("pair").scopes,
                                      "constant": [[]]})  # fmt: skip
    for offset in (1e10, 1e7):
        for _ in range(8):
            tables = {
                "unary": torch.tensor(0.02 * rng.normal(size=(16, 2)) + offset),
                "pair": torch.tensor(0.02 * rng.normal(size=(24, 2, 2))),
                "constant": torch.tensor([offset], dtype=torch.float64),
            }
            plain = {**tables, "unary": tables["unary"] - offset, "constant": torch.zeros(1, dtype=torch.float64)}
            maximum = lw.BP(temperature=0.0, iterations=1, tolerance=0)(graph, tables).status.maximum
            assert maximum is not None
            best = float(lw.Exact(temperature=0.0)(graph, plain).log_partition)
            cells = plain["unary"].numpy()[np.arange(16), maximum.assignment.numpy()].sum()
            for table, (a, b) in zip(plain["pair"].numpy(), graph.group("pair").scopes, strict=True):
                cells += table[maximum.assignment[a], maximum.assignment[b]]
            if bool(maximum.optimal):
                assert cells > best - 1e-4  # rounding of 1e10 is 1e-6 a variable
