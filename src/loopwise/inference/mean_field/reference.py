"""Mean field in plain torch: a sweep and a run, differentiable to any order, for small graphs.

In: a problem without evidence and beliefs ``[*batch, states]``. Out: beliefs after one sweep or several. Stage:
inference. The oracle of the compiled version, which visits variables in the same order, and its
second derivative; every derivative is torch's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Problem


def sweep(problem: Problem, states: Tensor, temperature: float = 1.0, active: Tensor | None = None) -> Tensor:
    """Beliefs after visiting every variable once, in order (equation: :class:`~loopwise.MeanField`).

    Examples that are not ``active`` (bool ``[*batch]``) keep theirs. Raises where hard zeros leave a variable without
    any value of finite expectation. Time: as the compiled sweep, but several torch operations for each edge.
    """
    graph = problem.graph
    beliefs = split(graph, states.expand(*problem.batch, graph.layout.states))
    moving = torch.ones(problem.batch, dtype=torch.bool, device=states.device) if active is None else active
    unary = split(graph, problem.unary() / temperature)
    factors = _factors_of_variables(problem, temperature)
    for variable in range(graph.variables):
        scores = unary[variable].expand(beliefs[variable].shape)
        for scope, table in factors[variable]:
            others = [None if member == variable else beliefs[member] for member in scope]
            scores = scores + _expectation(table, others)
        if bool((torch.isneginf(scores).all(-1) & moving).any()):
            raise ValueError(f"variable {variable} has no value of finite expectation: start from other beliefs")
        scores = torch.where(moving[..., None], scores, 0.0)
        beliefs[variable] = torch.where(moving[..., None], scores.softmax(-1), beliefs[variable])
    return torch.cat([*beliefs, states.new_zeros(*problem.batch, 0)], dim=-1)


def replay(problem: Problem, start: Tensor, sweeps: Tensor, temperature: float = 1.0) -> Tensor:
    """Beliefs after ``sweeps`` (int64 ``[*batch]``) sweeps from ``start`` ``[*batch, states]``."""
    states = start
    for number in range(int(sweeps.max()) if sweeps.numel() else 0):
        states = sweep(problem, states, temperature, number < sweeps)
    return states


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


def _factors_of_variables(problem: Problem, temperature: float) -> list[list[tuple[list[int], Tensor]]]:
    """Of each variable, scope and table of the factors it is in."""
    found: list[list[tuple[list[int], Tensor]]] = [[] for _ in range(problem.graph.variables)]
    for scope, table in _factors(problem, temperature):
        for member in scope:
            found[member].append((scope, table))
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
