"""A run whose gradients are compared."""

from __future__ import annotations

from torch import Tensor

import loopwise as lw


def loss(beliefs: lw.Beliefs) -> Tensor:
    return beliefs.states.square().sum()


def model(rows: int = 3, columns: int = 3, states: int = 2) -> tuple[lw.FactorGraph, lw.TablePotentials]:
    graph = lw.grid(rows, columns, states)
    return graph, lw.TablePotentials.random(graph, seed=0, scale=0.5)
