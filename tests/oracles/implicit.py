"""Losses over all of a model's beliefs, and their gradients by differences in every coordinate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import loopwise as lw
from oracles.enumeration import enumerate_model

Tables = dict[str, Tensor]
Loss = Callable[[Any], Tensor]  # beliefs to [*batch]

# Four points: truncation 1e-12; beliefs good to 1e-13 leave 1e-10.
WIDTH = 1e-3
STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))


def mixed_graph() -> lw.FactorGraph:
    """Cycles, arity 3, mixed cardinalities, an isolated variable, unary factors for some variables only, a constant;
    every other variable in two factors or more."""
    return lw.FactorGraph(
        [2, 3, 2, 3, 2],
        {
            "constant": np.zeros((1, 0), dtype=np.int64),
            "u2": [[0], [2], [2], [4]],
            "p23": [[0, 1], [2, 3]],
            "triple": [[1, 2, 3]],
            "p32": [[3, 0]],
        },
    )


def random_tables(graph: lw.FactorGraph, seed: int, batch: tuple[int, ...] = (), scale: float = 1.0) -> Tables:
    generator = torch.Generator().manual_seed(seed)
    return {
        group.name: scale * torch.randn(*batch, group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }


def random_loss(graph: lw.FactorGraph, seed: int = 0, log_partition: float = 0.3) -> Loss:
    """A smooth function of all variable and factor beliefs and of the log-partition function."""
    rng = np.random.default_rng(seed)
    shapes = {group.name: (group.count, *group.shape) for group in graph.groups}
    weights = {name: torch.tensor(rng.normal(size=shape)) for name, shape in shapes.items()}
    squares = torch.tensor(rng.normal(size=graph.layout.states))

    def loss(beliefs: Any) -> Tensor:
        total = log_partition * beliefs.log_partition + (squares * beliefs.states**2).sum(-1)
        for name, weight in weights.items():
            total = total + (weight * beliefs.factor(name)).flatten(-weight.ndim).sum(-1)
        return total

    return loss


def gradient_of(
    method: lw.inference.Inference, graph: lw.FactorGraph, tables: Tables, loss: Loss, evidence: Any = None
) -> tuple[Tables, Any]:
    """By autograd, and the beliefs; each example of a batch has a loss of its own."""
    leaves = {name: table.detach().clone().requires_grad_() for name, table in tables.items()}
    beliefs = method(graph, leaves, evidence)
    loss(beliefs).sum().backward()
    grads = {name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()}
    return grads, beliefs


def difference_gradient(evaluate: Callable[[Tables], Any], tables: Tables, loss: Loss) -> Tables:
    """By differences in every finite coordinate of tables without batch dimensions, all in one batched call."""
    flat = torch.cat([table.reshape(-1) for table in tables.values()])
    moved = (WIDTH * torch.isfinite(flat).to(flat.dtype)).diag()
    batch = torch.stack([flat + times * moved for times, _ in STENCIL])  # [points, coordinates, numbers]
    values = loss(evaluate(_unflat(batch, tables)))  # [points, coordinates]
    slopes = sum(weight * values[point] for point, (_, weight) in enumerate(STENCIL)) / WIDTH
    return _unflat(slopes, tables)


def by_inference(
    method: lw.inference.Inference, graph: lw.FactorGraph, evidence: Any = None
) -> Callable[[Tables], Any]:
    def evaluate(tables: Tables) -> Any:
        with torch.no_grad():
            return method(graph, tables, evidence)

    return evaluate


def by_enumeration(graph: lw.FactorGraph, temperature: float = 1.0) -> Callable[[Tables], Any]:
    """Beliefs of every example of ``[points, coordinates, factors, *shape]`` the slow way."""

    def evaluate(tables: Tables) -> Any:
        points, coordinates = next(iter(tables.values())).shape[:2]
        found = [
            enumerate_model(graph, {name: table[point, place].numpy() for name, table in tables.items()}, temperature)
            for point in range(points)
            for place in range(coordinates)
        ]

        def stacked(values: list[Any]) -> Tensor:
            array = np.stack(values)
            return torch.tensor(array.reshape(points, coordinates, *array.shape[1:]))

        return SimpleNamespace(
            states=stacked([one.states for one in found]),
            log_partition=stacked([np.asarray(one.log_partition) for one in found]),
            factor=lambda name: stacked([one.factors[name] for one in found]),
        )

    return evaluate


def gap(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Largest difference relative to the largest component."""
    size = max(float(table.abs().max()) for table in theirs.values() if table.numel())
    return max(float((ours[name] - table).abs().max()) for name, table in theirs.items() if table.numel()) / size


def _unflat(flat: Tensor, tables: Tables) -> Tables:
    result, start = {}, 0
    for name, table in tables.items():
        piece = flat[..., start : start + table.numel()]
        result[name] = piece.reshape(*flat.shape[:-1], *table.shape)
        start += table.numel()
    return result
