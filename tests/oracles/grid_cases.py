"""Noisy images, and risks on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

import loopwise as lw
from loopwise.apps.grid_crf import GridCRF


def pictures(
    sizes: list[tuple[int, int]], states: int = 2, channels: int = 1, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Blocks of labels, and noisy images of them."""
    rng = np.random.default_rng(seed)
    labels, images = [], []
    for rows, columns in sizes:
        coarse = rng.integers(0, states, (-(-rows // 2), -(-columns // 2)))
        label = np.kron(coarse, np.ones((2, 2), dtype=np.int64))[:rows, :columns]
        colour = np.linspace(0, 1, states)[label][..., None]
        images.append(colour + rng.normal(0, 0.6, (rows, columns, channels)))
        labels.append(label)
    return images, labels


def started(model: GridCRF, channels: int, seed: int = 1, scale: float = 0.4) -> GridCRF:
    """With random weights, as if it had been fitted."""
    generator = torch.Generator().manual_seed(seed)
    potentials = model.begin(channels)
    with torch.no_grad():
        for weight in potentials.parameters():
            weight.copy_(scale * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return model


TIGHT = lw.TRW(rho=0.5, tolerance=1e-11, iterations=2000, gradient=lw.FixedPoint(tolerance=1e-11))


PLAIN = replace(TIGHT, engine=lw.inference.Reference(), gradient=lw.Unroll())  # nothing to compile for three states
