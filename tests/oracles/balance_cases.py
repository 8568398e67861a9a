"""Walks whose long-run distribution is known by enumeration."""

from __future__ import annotations

import numpy as np

from loopwise import walk
from loopwise.testing.walk import Transitions, transitions


def weights_of(model: walk.Model, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(4).normal(size=model.size)


def found(*arguments: object, **options: object) -> Transitions:
    chain = transitions(*arguments, **options)  # type: ignore[arg-type]
    assert chain is not None
    return chain
