"""Random sparse features and weights."""

from __future__ import annotations

import numpy as np
import torch

from loopwise.potentials import Features, SparsePotentials


def random_weights(model: SparsePotentials, seed: int = 0) -> SparsePotentials:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.weights:
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return model


def random_features(
    seed: int, rows: int, features: int, *, values: bool = True, batch: tuple[int, ...] = ()
) -> Features:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 5, rows)
    start = np.concatenate([[0], np.cumsum(lengths)])
    value = generator.normal(size=start[-1]) if values else None
    return Features.of(start, generator.integers(0, features, start[-1]), value, batch=batch)
