"""Beliefs of a run, to be drawn."""

from __future__ import annotations

import warnings

import torch

import loopwise as lw


def run(sweeps: int, examples: int = 1, strength: float = 1.0, **options: object) -> lw.Beliefs:
    """A loopy run that keeps its beliefs, on the engine that needs no compiling."""
    graph = lw.grid(3, 3)
    generator = torch.Generator().manual_seed(0)
    potentials = {
        "unary": torch.randn(examples, 9, 2, generator=generator, dtype=torch.float64),
        "pair": strength * torch.randn(examples, 12, 2, 2, generator=generator, dtype=torch.float64),
    }
    method = lw.BP(iterations=sweeps, engine=lw.inference.Reference(), trace=True, **options)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.notices.ConvergenceWarning)
        return method(graph, potentials)
