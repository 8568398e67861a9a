"""Small models for mean field, and their partition functions by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Problem
from loopwise.inference.bethe import entropy_terms
from loopwise.inference.mean_field.reference import _expectation, _factors, split
from loopwise.potentials.checks import checked_tables


def log_scores(graph, tables):
    """Log-potential of every configuration, by definition."""
    scores = []
    for values in itertools.product(*map(range, graph.cardinalities)):
        score = 0.0
        for group in graph.groups:
            for row, scope in enumerate(group.scopes):
                score += float(tables[group.name][(row, *(values[variable] for variable in scope))])
        scores.append(score)
    return np.array(scores)


def log_partition(graph, tables):
    return float(torch.logsumexp(torch.as_tensor(log_scores(graph, tables)), 0))


def problem_of(graph, potentials):
    tables, batch = checked_tables(graph, potentials)
    return Problem(graph, tables, batch, torch.empty(0, dtype=torch.float64))


def random_model(seed, zeros=0.0):
    """One to five variables of one to three values and factors of arity 1 to 3, some cells forbidden."""
    rng = np.random.default_rng(seed)
    cardinalities = rng.integers(1, 4, rng.integers(1, 6))
    factors = []
    for _ in range(rng.integers(0, 8)):
        arity = int(rng.integers(1, min(3, len(cardinalities)) + 1))
        scope = rng.choice(len(cardinalities), arity, replace=False)
        table = 2 * rng.normal(size=tuple(cardinalities[scope]))
        if arity > 1:
            table = np.where(rng.random(table.shape) < zeros, -np.inf, table)
        factors.append((scope.tolist(), table))
    return FactorGraph.from_factors(cardinalities, factors)


def exactly_one(variables):
    graph = FactorGraph([2] * variables, {"one": [list(range(variables))], "unary": np.arange(variables)[:, None]})
    allowed = np.indices((2,) * variables).sum(axis=0) == 1
    return graph, np.where(allowed, 0.0, -np.inf)[None]


def lower_bound(problem: Problem, states: Tensor, temperature: float = 1.0) -> Tensor:
    """Expected log-potential plus ``temperature`` x entropy, ``[*batch]``, a bound for any ``states``."""
    graph = problem.graph
    beliefs = split(graph, states.expand(*problem.batch, graph.layout.states))
    total = problem.constant().expand(problem.batch)
    for belief, unary in zip(beliefs, split(graph, problem.unary()), strict=True):
        total = total + temperature * entropy_terms(belief).sum(-1) + _expectation(unary, [belief])
    for scope, table in _factors(problem, 1.0):
        total = total + _expectation(table, [beliefs[member] for member in scope])
    return total
