"""Mean field in plain torch: one sweep and the bound, differentiable, for small graphs.

In: a problem without evidence and beliefs ``[*batch, states]``. Out: beliefs after one sweep, or the bound.
Stage: inference. The oracle of the compiled version, which visits variables in the same order; every
derivative is torch's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Problem


def sweep(problem: Problem, states: Tensor, temperature: float = 1.0) -> Tensor:
    """Beliefs after visiting every variable once, in order (equation: :class:`~loopwise.MeanField`).

    Raises where hard zeros leave a variable without any value of finite expectation. Time: as the compiled
    sweep, but one torch operation or more for each edge.
    """
    graph = problem.graph
    beliefs = split(graph, states.expand(*problem.batch, graph.layout.states))
    unary = split(graph, problem.unary() / temperature)
    factors = _factors(problem, temperature)
    for variable in range(graph.variables):
        scores = unary[variable].expand(beliefs[variable].shape)
        for scope, table in factors:
            if variable in scope:
                others = [None if member == variable else beliefs[member] for member in scope]
                scores = scores + _expectation(table, others)
        if bool(torch.isneginf(scores).all(-1).any()):
            raise ValueError(f"variable {variable} has no value of finite expectation: start from other beliefs")
        beliefs[variable] = scores.softmax(-1)
    return torch.cat([*beliefs, states.new_zeros(*problem.batch, 0)], dim=-1)


def lower_bound(problem: Problem, states: Tensor, temperature: float = 1.0) -> Tensor:
    """Expected log-potential plus ``temperature`` x entropy, ``[*batch]``, a bound for any ``states``."""
    graph = problem.graph
    beliefs = split(graph, states.expand(*problem.batch, graph.layout.states))
    total = problem.constant().expand(problem.batch)
    for belief, unary in zip(beliefs, split(graph, problem.unary()), strict=True):
        total = total + temperature * torch.special.entr(belief).sum(-1) + _expectation(unary, [belief])
    for scope, table in _factors(problem, 1.0):
        total = total + _expectation(table, [beliefs[member] for member in scope])
    return total


def split(graph: FactorGraph, states: Tensor) -> list[Tensor]:
    """``[*batch, states]`` cut into one tensor a variable."""
    return list(torch.split(states, graph.cardinalities.tolist(), dim=-1))


def _factors(problem: Problem, temperature: float) -> list[tuple[list[int], Tensor]]:
    """Scope and table ``[*b, *shape]`` of every factor of arity 2 and more."""
    found = []
    for member in problem.graph.layout.message_groups:
        group = member.group
        table = problem.table(group.name) / temperature
        rows = table.unbind(table.ndim - 1 - group.arity)
        found += [(scope, row) for scope, row in zip(group.scopes.tolist(), rows, strict=True)]
    return found


def _expectation(table: Tensor, beliefs: list[Tensor | None] | list[Tensor]) -> Tensor:
    """Mean of ``table`` over the axes that have a belief (the others: None); 0 x -inf = 0."""
    arity = len(beliefs)
    weight = table.new_ones(())
    for axis, belief in enumerate(beliefs):
        if belief is not None:
            weight = weight * belief.reshape(*belief.shape[:-1], *(1,) * axis, -1, *(1,) * (arity - 1 - axis))
    forbidden = torch.isneginf(table)
    terms = weight * table.masked_fill(forbidden, 0.0)
    terms = terms.masked_fill(forbidden & (weight > 0), -torch.inf)
    axes = [axis - arity for axis, belief in enumerate(beliefs) if belief is not None]
    return terms.sum(axes)
