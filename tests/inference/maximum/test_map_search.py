"""Search for the best assignment: on small models by enumeration, and what it promises on others."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import loopwise as lw
from loopwise.graph import FactorGraph, grid
from loopwise.inference.maximum.map_search import Progress
from oracles.enumeration import enumerate_model
from oracles.map_cases import glass
from oracles.strategies import Model, models

ROUNDING = 1e-9


@settings(max_examples=40, deadline=None)
@given(models(zeros=True, scale=2.0))
def test_search_finds_the_best_of_small_models(model: Model) -> None:
    truth = enumerate_model(*model)
    beliefs = lw.inference.MapSearch(rounds=2)(*model)
    assert float(beliefs.log_partition) == pytest.approx(truth.best_score, abs=1e-9)
    maximum = beliefs.status.maximum
    assert maximum is not None and float(maximum.bound) >= truth.best_score - 1e-12
    assert beliefs.status.exact == bool(maximum.optimal)


def test_hard_zeros_are_kept_where_search_can() -> None:
    """A circle of unequal neighbours, whose messages say nothing: each variable's own choice breaks zeros."""
    size = 12
    graph = FactorGraph([2] * size, {"differ": [[k, (k + 1) % size] for k in range(size)]})
    differ = torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf]], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lw.notices.ConstraintWarning)
        for method in (lw.BP(temperature=0.0), lw.inference.MapSearch(rounds=1)):
            assert float(method(graph, {"differ": differ}).log_partition) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_and_evidence(dtype: torch.dtype) -> None:
    graph, tables = glass(4, batch=(3, 2))
    tables = {name: table.to(dtype) for name, table in tables.items()}
    observed = {0: 1, 5: 0}
    exact = lw.Exact(temperature=0.0)(graph, tables, observed)
    for method in (lw.inference.MapSearch(rounds=3), lw.BP(temperature=0.0, iterations=10, tolerance=0)):
        beliefs = method(graph, tables, observed)
        maximum = beliefs.status.maximum
        assert maximum is not None and maximum.score.dtype == torch.float64
        assert beliefs.assignment.shape == (3, 2, 16) and beliefs.states.dtype == dtype
        assert (beliefs.assignment[..., 0] == 1).all() and (beliefs.assignment[..., 5] == 0).all()
        torch.testing.assert_close(beliefs.log_partition.double(), maximum.score, rtol=1e-5, atol=1e-5)
        assert (maximum.score <= maximum.bound).all()
        assert (maximum.bound >= exact.log_partition.double() - 1e-4).all()
    searched = lw.inference.MapSearch(rounds=3)(graph, tables, observed)
    torch.testing.assert_close(searched.log_partition, exact.log_partition)


def test_seeds_and_rounds_decide() -> None:
    graph, tables = glass(15)
    first, again = (lw.inference.MapSearch(rounds=2, seed=3)(graph, tables) for _ in range(2))
    assert torch.equal(first.assignment, again.assignment)
    assert str(first.status) == str(again.status)
    longer = lw.inference.MapSearch(rounds=6, seed=3)(graph, tables)
    assert float(longer.log_partition) >= float(first.log_partition) - ROUNDING


def test_what_the_bound_leaves_is_eliminated() -> None:
    """A few frustrated loops in a field that decides most of the rest: score and bound do not meet, but what is left
    between them is small."""
    graph, tables = glass(40, seed=1)
    found = lw.inference.MapSearch(rounds=2)(graph, {"unary": 3 * tables["unary"], "pair": 0.5 * tables["pair"]})
    assert found.status.exact, str(found.status)
    assert "proved by eliminating" in str(found.status) and "optimal" in str(found.status)
    proved = 0
    for seed in range(8):
        graph, tables = glass(10, seed)
        weak = {"unary": 3 * tables["unary"], "pair": 0.8 * tables["pair"]}
        found = lw.inference.MapSearch(rounds=2)(graph, weak)
        if found.status.exact:
            proved += 1
            best = lw.Exact(temperature=0.0)(graph, weak)
            assert float(found.log_partition) == pytest.approx(float(best.log_partition), abs=1e-9)
    assert proved


def test_progress_and_seconds() -> None:
    told: list[Progress] = []
    graph, tables = glass(20)
    beliefs = lw.infer(graph, tables, temperature=0.0, memory_limit=1.0, seconds=0.2)
    assert beliefs.status.method == "MapSearch" and "no junction tree" in str(beliefs.status)
    lw.inference.MapSearch(rounds=2, watch=told.append)(graph, tables)
    assert [step.score <= step.bound for step in told] == [True, True]
    assert told[0].score <= told[1].score + ROUNDING and told[0].bound >= told[1].bound - ROUNDING


def test_the_score_is_differentiable_and_the_choice_is_not() -> None:
    graph, tables = glass(4)
    pair = tables["pair"].requires_grad_()
    beliefs = lw.inference.MapSearch(rounds=1)(graph, {**tables, "pair": pair})
    (gradient,) = torch.autograd.grad(beliefs.log_partition, pair)
    assert gradient.sum() == graph.group("pair").count
    with pytest.raises(lw.notices.GradientError, match="temperature 0"):
        beliefs.states.sum().backward()


def test_small_and_empty_models() -> None:
    nothing = FactorGraph([], {"constant": np.zeros((1, 0), dtype=np.int64)})
    found = lw.inference.MapSearch(rounds=1)(nothing, {"constant": torch.tensor([2.5], dtype=torch.float64)})
    assert found.assignment.shape == (0,) and float(found.log_partition) == 2.5 and found.status.exact
    alone = FactorGraph([3], {"unary": [[0]]})
    found = lw.inference.MapSearch(rounds=1)(alone, {"unary": torch.tensor([[0.0, 2.0, 1.0]])})
    assert found.assignment.tolist() == [1] and found.status.exact
    graph, tables = glass(3, batch=(0,))
    assert lw.inference.MapSearch(rounds=1)(graph, tables).assignment.shape == (0, 9)
    assert lw.BP(temperature=0.0, tolerance=0)(graph, tables).assignment.shape == (0, 9)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"seconds": 0}, "seconds"), ({"seconds": math.nan}, "seconds"), ({"rounds": 0}, "rounds"), ({"seed": -1}, "seed"),
     ({"memory_limit": 0}, "memory_limit")],
)  # fmt: skip
def test_options_are_checked(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lw.inference.MapSearch(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seconds are for temperature 0"):
        lw.infer(grid(2, 2), {}, seconds=1.0)


def test_an_optimum_of_score_zero_is_proved() -> None:
    graph = lw.chain(3)
    tables = {"unary": torch.zeros(3, 2, dtype=torch.float64), "pair": torch.eye(2, dtype=torch.float64) - 1.0}
    maximum = lw.inference.MapSearch(rounds=1)(graph, tables).status.maximum
    assert maximum is not None and bool(maximum.optimal) and float(maximum.gap) == 0.0


def test_potentials_as_large_as_numbers_go_raise_no_warning() -> None:
    graph = FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2], [0, 2]]})
    tables = {"pair": torch.tensor(np.random.default_rng(0).normal(size=(3, 2, 2)) * 1e300)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = lw.inference.MapSearch(rounds=1)(graph, tables)
    assert float(found.log_partition) == pytest.approx(enumerate_model(graph, tables).best_score, rel=1e-12)
