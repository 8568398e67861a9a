"""Values that cannot be best are ruled out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

import loopwise as lw
from loopwise.graph import FactorGraph
from loopwise.inference.gibbs.method import factor_arrays
from loopwise.inference.maximum.method import CLOSED, Dual, upper_bound
from oracles.enumeration import enumerate_model
from oracles.map_cases import problem_of
from oracles.strategies import Model, models


@settings(max_examples=40, deadline=None)
@given(models(zeros=True, scale=3.0))
def test_ruling_values_out_keeps_the_best(model: Model) -> None:
    problem, truth = problem_of(*model), enumerate_model(*model)
    dual, best = Dual(problem, factor_arrays(problem, 1.0), 0), truth.best_score - float(problem.constant())
    dual.descend(5)
    dual.prune(best - CLOSED * max(1.0, abs(best)))
    gone = dual.dead()
    start = problem.graph.layout.state_start
    for configuration in truth.configurations[truth.scores >= truth.best_score]:
        assert not gone[start[:-1] + configuration].any()
    dual.descend(5)
    assert dual.bound >= best - 1e-12


def test_contradictions_that_propagation_finds_are_errors() -> None:
    graph = FactorGraph([2, 2, 2], {"a": [[0, 1]], "b": [[1, 2]], "c": [[2, 0]]})
    zero = -torch.inf
    equal = torch.tensor([[0.0, zero], [zero, 0.0]], dtype=torch.float64)
    only = torch.tensor([[zero, zero], [zero, 0.0]], dtype=torch.float64)
    never = torch.tensor([[0.0, zero], [0.0, zero]], dtype=torch.float64)
    with pytest.raises(lw.notices.ImpossibleError, match="no configuration is possible"):
        nothing = torch.zeros(3, dtype=torch.int64), torch.tensor(-torch.inf)
        upper_bound(problem_of(graph, {"a": equal, "b": only, "c": never}), *nothing)
