"""Small problems with label sets that depend on inputs and on each other."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import LabelWeights


def make_data(examples: int, labels: int = 3, features: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels: each label a noisy threshold, and every second one like the one before it."""
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(examples, features))
    slopes = np.random.default_rng(1).normal(size=(features, labels))
    scores = inputs @ slopes + 0.3 * generator.normal(size=(examples, labels))
    scores[:, 1::2] = scores[:, 0 : 2 * (labels // 2) : 2] + 0.5 * generator.normal(size=(examples, labels // 2))
    return inputs, (scores > 0).astype(np.int64)


def make_problem(
    examples: int, labels: int = 3, features: int = 4, seed: int = 0, *, scant: bool = False
) -> LabelProblem:
    """The same with the constant feature; ``scant``: sparse inputs, one of them empty."""
    inputs, gold = make_data(examples, labels, features, seed)
    full = np.column_stack([inputs, np.ones(examples)])
    if scant:
        full[np.abs(full) < 0.8] = 0.0
        full[0] = 0.0
        return LabelProblem(sparse.csr_array(full), gold)
    return LabelProblem(full, gold)


def random_weights(labels: int, features: int, seed: int = 0, scale: float = 1.0) -> LabelWeights:
    empty = LabelWeights.zeros(labels, features)
    return empty.like(np.random.default_rng(seed).normal(scale=scale, size=len(empty.vector)))
