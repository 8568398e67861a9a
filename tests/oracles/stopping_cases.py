"""Rings whose examples need different numbers of sweeps, and a policy written out sweep by sweep."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import loopwise as lw
from loopwise import budget
from loopwise.budget.smoothing import first_stop
from loopwise.inference.messages.features import STANDARD, Course, Feature


def ring(length: int = 9, states: int = 2) -> lw.FactorGraph:
    first = np.arange(length)
    scopes = np.stack([first, (first + 1) % length], axis=1)
    return lw.FactorGraph(np.full(length, states), {"unary": first[:, None], "pair": scopes})


def tables_of(graph: lw.FactorGraph, examples: int, seed: int = 0, scale: float = 1.0) -> dict[str, Tensor]:
    """Shared pairs, unary tables whose strength differs much from example to example."""
    generator = torch.Generator().manual_seed(seed)
    tables = {}
    for group in graph.groups:
        lead = (examples,) if group.arity == 1 else ()
        table = scale * torch.randn(*lead, group.count, *group.shape, generator=generator, dtype=torch.float64)
        if group.arity == 1:
            table = table * torch.linspace(0.1, 4.0, examples)[:, None, None]
        tables[group.name] = table
    return tables


def policy_for(features: tuple[Feature, ...] = STANDARD, seed: int = 0) -> budget.Policy:
    policy = budget.Policy(features)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        policy.weights.copy_(torch.randn(len(features), generator=generator, dtype=torch.float64))
        policy.centre.copy_(0.1 * torch.randn(len(features), generator=generator, dtype=torch.float64))
    return policy


def by_trace(stopping: budget.Stopping, graph: lw.FactorGraph, tables: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The hard rule, the slow way: every example alone, every sweep a run of its own."""
    beliefs = stopping.traced(graph, tables)
    assert beliefs.trace is not None
    watched = torch.ones(graph.variables, dtype=torch.bool)
    rows, sweeps = [], []
    for example in range(beliefs.trace.shape[1]):
        course = Course(graph, beliefs.trace[:, example], watched, stopping.limit)
        stop = int(first_stop(stopping.policy(course).detach()))
        rows.append(beliefs.trace[stop + 1, example])
        sweeps.append(stop + 1)
    return torch.stack(rows), torch.tensor(sweeps)


LIMIT = 7


def settling(limit: int = LIMIT, level: float = -2.0, **options: object) -> budget.Stopping:
    """Stops once the largest change is below 10^level: examples differ in when that is."""
    policy = budget.Policy((budget.Bias(), budget.LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([level, -1.0]))
    return budget.Stopping(lw.BP(iterations=limit, **options), policy)  # type: ignore[arg-type]
