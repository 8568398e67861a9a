"""The torch twin of mean field: the same sweeps, right gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.mean_field.reference import sweep
from loopwise.potentials.tables import TablePotentials
from oracles.mean_field_cases import exactly_one, log_partition, log_scores, lower_bound, problem_of, random_model

CLOSE = {"rtol": 0, "atol": 1e-10}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
def test_each_sweep_equals_the_torch_twin_and_never_lowers_the_bound(seed, zeros):
    graph, tables = random_model(seed, zeros)
    if np.isneginf(log_scores(graph, tables)).all():
        return
    problem = problem_of(graph, tables)
    runs = [MeanField(iterations=number, tolerance=0, seed=1)(graph, tables) for number in range(1, 6)]
    for before, after in itertools.pairwise(runs):
        torch.testing.assert_close(sweep(problem, before.states), after.states, **CLOSE)
        assert float(after.log_partition) >= float(before.log_partition) - 1e-9
        change = float((after.states - before.states).abs().max())
        assert float(after.status.residual) == pytest.approx(change, abs=1e-12)
    for run in runs:
        assert torch.isfinite(run.states).all() and torch.isfinite(run.log_partition)
        assert float(run.log_partition) <= log_partition(graph, tables) + 1e-9
        torch.testing.assert_close(lower_bound(problem, run.states), run.log_partition, **CLOSE)


def test_twin_has_right_gradients_at_hard_zeros():
    graph = FactorGraph([2, 3, 2], {"triple": [[0, 1, 2]], "pair": [[1, 2]], "unary": [[2]]})
    tables = {name: table.detach() for name, table in TablePotentials.random(graph, seed=1)().items()}
    zeros = torch.zeros_like(tables["pair"])
    zeros[0, 2, 1] = -torch.inf
    start = torch.tensor([0.3, 0.7, 0.5, 0.5, 0.0, 0.6, 0.4], dtype=torch.float64)

    def swept(triple, pair, unary):
        problem = problem_of(graph, {"triple": triple, "pair": pair + zeros, "unary": unary})
        return sweep(problem, sweep(problem, start)), lower_bound(problem, start)

    inputs = [tables[name].clone().requires_grad_() for name in ("triple", "pair", "unary")]
    assert torch.autograd.gradcheck(swept, inputs)
    with pytest.raises(ValueError, match="variable 0 has no value"):
        graph, one = exactly_one(3)
        sweep(
            problem_of(graph, {"one": one, "unary": np.zeros((3, 2))}),
            torch.full((6,), 0.5, dtype=torch.float64),
        )
