"""Sparse features: batches, unions, parts."""

from __future__ import annotations

import numpy as np
import torch

from loopwise.potentials import Features, SparseGroup, SparsePotentials
from oracles.sparse_cases import random_features, random_weights


def test_batches_unions_and_taking_examples() -> None:
    parts = [random_features(seed, 4, 9) for seed in range(5)]
    model = random_weights(SparsePotentials({"g": SparseGroup((3,), 9)}))
    single = torch.stack([model({"g": part})["g"] for part in parts])
    stacked = Features.stack(parts)
    assert torch.equal(model({"g": stacked})["g"], single)
    assert torch.equal(model({"g": Features.join(parts)})["g"], single.flatten(0, 1))
    assert torch.equal(model({"g": stacked.take([3, 0, 3])})["g"], single[[3, 0, 3]])
    assert torch.equal(model({"g": stacked.take(np.array([True, False, False, True, False]))})["g"], single[[0, 3]])
    assert model({"g": stacked.take([])})["g"].shape == (0, 0, 3)
    ones = Features.of_table([[0, 1], [2, 2]])
    mixed = Features.stack([ones, random_features(9, 2, 9)])
    assert mixed.value is not None
    assert mixed.value[:4].tolist() == [1.0] * 4
