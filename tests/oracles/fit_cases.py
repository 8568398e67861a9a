"""A small system and data that fit learns from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import loopwise as lw
from loopwise.learn import Examples, System

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role


GRAPH = lw.random_mrf(8, 14, seed=3, unary=True)


ROLES = [INPUT, OUTPUT, HIDDEN, INPUT, OUTPUT, HIDDEN, OUTPUT, OUTPUT]


FEW = lw.BP(iterations=3, tolerance=0)


def data(count: int = 48, seed: int = 0) -> Examples:
    """Examples that have something to learn: all outputs copy an input, with noise."""
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.integers(0, 2, (count, 1)), 8, axis=1) ^ (rng.random((count, 8)) < 0.1)
    return Examples.of(GRAPH, values, ROLES)


def fresh(decoder: lw.decode.BeliefDecoder | None = None, seed: int = 5) -> System:
    return System(lw.TablePotentials.random(GRAPH, seed=seed, scale=0.1), FEW, decoder)


def weights(system: System) -> Tensor:
    return torch.cat([param.detach().reshape(-1) for param in system.parameters()])


def sgd(rate: float = 0.5):  # type: ignore[no-untyped-def]
    return lambda params: torch.optim.SGD(params, lr=rate)
