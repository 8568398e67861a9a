"""The slow and obvious way: every configuration of a small model, in plain NumPy. Other tests compare with
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from loopwise.graph.factor_graph import FactorGraph


@dataclass(frozen=True)
class Enumeration:
    """Everything there is to know about a small model."""

    log_partition: float
    variables: list[np.ndarray]  # the marginal of each variable
    factors: dict[str, np.ndarray]  # of each group, [factors, *shape]
    best: np.ndarray  # a configuration of largest score
    best_score: float
    configurations: np.ndarray  # [configurations, variables]
    scores: np.ndarray  # [configurations]

    @property
    def states(self) -> np.ndarray:
        return np.concatenate([np.zeros(0), *self.variables])

    @property
    def probabilities(self) -> np.ndarray:
        return np.exp(self.scores - self.log_partition)


def enumerate_model(graph: FactorGraph, tables: Mapping[str, object], temperature: float = 1.0) -> Enumeration:
    """All of a model's quantities by enumeration; tables ``[factors or 1, *shape]``, no batch dimensions."""
    cards = graph.cardinalities
    configurations = (
        np.stack([axis.reshape(-1) for axis in np.indices(tuple(cards))], axis=1)
        if len(cards)
        else (np.zeros((1, 0), dtype=np.int64))
    )
    scores = np.zeros(len(configurations))
    for group in graph.groups:
        table = np.broadcast_to(np.asarray(tables[group.name], dtype=np.float64), (group.count, *group.shape))
        for row, scope in enumerate(group.scopes):
            scores += table[row][tuple(configurations[:, scope].T)]
    top = scores.max()
    if np.isneginf(top):
        raise ZeroDivisionError("no configuration is possible")
    weights = np.exp((scores - top) / temperature)
    probabilities = weights / weights.sum()
    variables = [
        np.bincount(configurations[:, variable], weights=probabilities, minlength=cards[variable])
        for variable in range(len(cards))
    ]
    factors = {}
    for group in graph.groups:
        marginals = np.zeros((group.count, *group.shape))
        for row, scope in enumerate(group.scopes):
            rows = np.full(len(configurations), row)
            np.add.at(marginals, (rows, *configurations[:, scope].T), probabilities)
        factors[group.name] = marginals
    return Enumeration(
        log_partition=float(top + temperature * np.log(weights.sum())),
        variables=variables,
        factors=factors,
        best=configurations[int(scores.argmax())],
        best_score=float(top),
        configurations=configurations,
        scores=scores,
    )
