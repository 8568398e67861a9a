"""Small systems with a price: tables, frontiers, examples of a noisy channel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import budget
from loopwise.budget.strength import Strength


def random_table(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def check_by_differences(value: Callable[[], Tensor], params: list[Tensor], step: float = 1e-6) -> None:
    """Directional derivatives of ``value()`` are those that backward gives."""
    slopes = torch.autograd.grad(value(), params)
    for seed, (param, slope) in enumerate(zip(params, slopes, strict=True)):
        direction = random_table(seed, *param.shape)
        with torch.no_grad():
            kept, values = param.clone(), []
            for sign in (1.0, -1.0):
                param.copy_(kept + sign * step * direction)
                values.append(float(value()))
            param.copy_(kept)
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(float((slope * direction).sum()), abs=2e-7)


# --- The fractional model --------------------------------------------------------------------------------------------


def model(seed: int = 0, strength: Strength | None = None) -> tuple[lw.FactorGraph, budget.Gated]:
    graph = lw.graph.complete(5)
    potentials = lw.TablePotentials.random(graph, seed=seed, scale=0.6)
    return graph, budget.Gated(potentials, budget.Gate(strength=strength or budget.Interaction()))


def points(pairs: list[tuple[int, int]]) -> list[budget.Point]:
    return [budget.Point("a", 0.0, float(cost), float(loss)) for cost, loss in pairs]


def grids(count: int, seed: int, side: int = 4) -> lw.Examples:
    """Easy examples see every pixel, hard ones only a corner: from there it takes sweeps to the other end."""
    graph = lw.grid(side, side)
    tables = {"unary": torch.zeros(2).double(), "pair": 1.2 * torch.eye(2).double()}
    values = lw.inference.gibbs_sample(graph, tables, count, seed=seed, burn_in=200).numpy()
    seen = np.zeros(values.shape, dtype=bool)
    seen[: count // 2], seen[count // 2 :, 0] = True, True
    signal = torch.from_numpy(np.where(seen, 4.0 * (2 * values - 1), 0.0))
    return lw.Examples.of(graph, values, [lw.Role.OUTPUT] * graph.variables, signal=signal)


class Channel(torch.nn.Module):
    def __init__(self, graph: lw.FactorGraph) -> None:
        super().__init__()
        self.graph = graph
        self.pair = torch.nn.Parameter(1.2 * torch.eye(2).double().repeat(graph.group("pair").count, 1, 1))

    def forward(self, signal: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"unary": torch.stack([torch.zeros_like(signal), signal], -1), "pair": self.pair}


def synthetic(seed: int = 0) -> tuple[lw.System, lw.Examples]:
    graph = lw.graph.complete(8)
    truth = lw.TablePotentials.random(graph, seed=seed)
    (examples,) = lw.sample_examples(truth, (64,), roles=lw.learn.thirds(graph, seed=1), seed=2, burn_in=50)
    return lw.System(lw.TablePotentials.random(graph, seed=3, scale=1.2), lw.BP(iterations=2, tolerance=0)), examples
