"""Models in files, and ``loopwise infer``."""

from __future__ import annotations

import numpy as np

from loopwise.cli.main import app
from loopwise.formats import TableModel
from loopwise.graph import FactorGraph
from oracles.commands import command
from oracles.enumeration import Enumeration, enumerate_model

invoke, succeed = command(app, "infer")


def tree_model(seed: int = 0) -> TableModel:
    """Mixed cardinalities, a factor of arity 3, one on a single variable: no cycle."""
    rng = np.random.default_rng(seed)
    cards = [2, 3, 2, 4, 2]
    scopes = [(0,), (0, 1), (1, 2, 3), (3, 4)]
    return TableModel.of(cards, [(scope, rng.random([cards[v] for v in scope]) + 0.1) for scope in scopes])


def loopy_model(seed: int = 0, side: int = 4, strength: float = 1.0) -> TableModel:
    rng = np.random.default_rng(seed)
    pairs = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    pairs += [(r * side + c, r * side + side + c) for r in range(side - 1) for c in range(side)]
    return TableModel.of([2] * side**2, [(pair, np.exp(strength * rng.normal(size=(2, 2)))) for pair in pairs])


def truth(model: TableModel, evidence: dict[int, int] | None = None) -> Enumeration:
    """By enumeration; an observation is one more factor, which forbids everything else."""
    factors = model.log_factors()
    for variable, value in (evidence or {}).items():
        table = np.full(model.cardinalities[variable], -np.inf)
        table[value] = 0.0
        factors.append(((variable,), table))
    return enumerate_model(*FactorGraph.from_factors(model.cardinalities, factors))
