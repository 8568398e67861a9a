"""Models for the search for a best assignment, and their scores in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph import FactorGraph, grid
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.gibbs.kernels.gibbs import FactorArrays
from oracles.strategies import Model


def glass(side: int, seed: int = 0, batch: tuple[int, ...] = ()) -> Model:
    """A spin glass: couplings of both signs, so that max-product seldom converges and often ends below ICM."""
    graph = grid(side, side)
    generator = torch.Generator().manual_seed(seed)
    coupling = 2 * torch.randn(*batch, graph.group("pair").count, generator=generator, dtype=torch.float64)
    field = torch.randn(*batch, graph.variables, generator=generator, dtype=torch.float64)
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64)
    return graph, {"unary": field[..., None] * sign, "pair": coupling[..., None, None] * torch.outer(sign, sign)}


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


class _CaughtError(Exception):
    pass


class _Catch(Inference):
    """Gives away the problem that a method would be given."""

    def run(self, problem: Problem) -> Beliefs:
        self.problem = problem
        raise _CaughtError


def problem_of(graph: FactorGraph, tables: object, evidence: object = None) -> Problem:
    catch = _Catch()
    with pytest.raises(_CaughtError):
        catch(graph, tables, evidence)  # type: ignore[arg-type]
    return catch.problem
