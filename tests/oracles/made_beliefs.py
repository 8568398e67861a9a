"""Beliefs made of any numbers, for tests of what comes after inference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from loopwise.graph import FactorGraph
from loopwise.inference.beliefs import Beliefs, Status


def beliefs_of(graph: FactorGraph, states: Tensor, factors: dict[str, Tensor] | None = None) -> Beliefs:
    """Beliefs that are what one says: ``states`` ``[*batch, states]``, factor tables where given."""
    nothing = torch.zeros(states.shape[:-1])
    status = Status("made up", False, True, nothing.long(), nothing)
    return Beliefs(graph, states, lambda name: (factors or {})[name], lambda: nothing, status)


def by_hand(graph: FactorGraph, rows: object) -> Beliefs:
    """Beliefs of a graph of uniform cardinality from nested lists ``[*batch, variables, K]``."""
    return beliefs_of(graph, torch.tensor(rows, dtype=torch.float64).flatten(-2))


def split(graph: FactorGraph, states: Tensor) -> list[Tensor]:
    """One tensor ``[*batch, K]`` a variable: the loop that the library avoids, for oracles."""
    start = graph.layout.state_start
    return [states[..., start[variable] : start[variable + 1]] for variable in range(graph.variables)]


def softmax_by_variable(graph: FactorGraph, logits: Tensor) -> Tensor:
    return torch.cat([piece.softmax(-1) for piece in split(graph, logits)], -1) if graph.variables else logits


def random_logits(graph: FactorGraph, batch: tuple[int, ...] = (), seed: int = 0, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*batch, graph.layout.states, generator=generator, dtype=torch.float64)


def random_beliefs(graph: FactorGraph, batch: tuple[int, ...] = (), seed: int = 0, scale: float = 2.0) -> Beliefs:
    states = softmax_by_variable(graph, random_logits(graph, batch, seed, scale))
    generator = torch.Generator().manual_seed(seed + 1)
    tables = {}
    for group in graph.groups:
        flat = scale * torch.randn(*batch, group.count, group.cells, generator=generator, dtype=torch.float64)
        tables[group.name] = flat.softmax(-1).reshape(*batch, group.count, *group.shape)
    return beliefs_of(graph, states, tables)


def random_values(graph: FactorGraph, batch: tuple[int, ...] = (), seed: int = 0, hidden: float = 0.0) -> Tensor:
    """Right answers; a share of them is -1, but never all of an example."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, graph.cardinalities, (*batch, graph.variables))
    gone = rng.random(values.shape) < hidden
    gone[..., int(rng.integers(graph.variables))] = False
    return torch.tensor(np.where(gone, -1, values))


def on_simplex(graph: FactorGraph, function: Callable[[Beliefs], Tensor]) -> Callable[[Tensor], Tensor]:
    """``function`` of beliefs as a function of logits, whose small changes are beliefs again."""
    return lambda logits: function(beliefs_of(graph, softmax_by_variable(graph, logits)))


def binary(ones: object) -> Beliefs:
    """Beliefs of binary variables from b(1), ``[*batch, variables]``."""
    b = torch.tensor(ones, dtype=torch.float64)
    graph = FactorGraph(np.full(b.shape[-1], 2), {})
    return beliefs_of(graph, torch.stack([1 - b, b], -1).flatten(-2))


def wrong_at_all(predictions: Tensor, truths: Tensor) -> Tensor:
    return (predictions != truths).any(-1).double()
