"""Hashed features."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import torch

from loopwise.potentials import Features, SparseGroup, SparsePotentials, feature_keys, hashed, text_keys
from oracles.sparse_cases import random_weights


def test_keys_collide_only_by_the_modulus() -> None:
    fields = np.indices((3, 40, 50)).reshape(3, -1)
    keys = feature_keys(*fields)
    assert len(np.unique(keys)) == keys.size  # 6000 tuples, all apart
    assert len(np.unique(feature_keys(np.arange(-5000, 5000)))) == 10_000
    assert not np.intersect1d(feature_keys(1, [2, 3]), feature_keys([2, 3], 1)).size  # order counts
    assert not np.intersect1d(feature_keys([1, 2]), feature_keys([1, 2], 0)).size  # and so does length
    size = 4001
    places = hashed(keys, size)
    assert places.tolist() == [int(key) % size for key in keys.tolist()]
    # As many collisions as throwing at random gives: expected number of distinct places, within five deviations.
    expected = size * (1 - (1 - 1 / size) ** keys.size)
    assert abs(len(np.unique(places)) - expected) < 5 * np.sqrt(expected)


def test_a_large_table_is_a_dictionary() -> None:
    """Hashed features score as features numbered one by one, when no two share a place."""
    tuples = np.random.default_rng(0).integers(0, 4, (12, 3))
    places = hashed(feature_keys(*tuples.T), 100_003)
    numbers = {place: number for number, place in enumerate(sorted(set(places.tolist())))}
    assert len(numbers) == len({tuple(row) for row in tuples.tolist()})
    model = SparsePotentials({"g": SparseGroup((2,), 100_003)})
    small = random_weights(SparsePotentials({"g": SparseGroup((2,), len(numbers))}))
    with torch.no_grad():
        model.weight("g")[list(numbers)] = small.weight("g")
    keys = Features.of_table(feature_keys(*tuples.T).reshape(4, 3))
    listed = Features.of_table(np.array([numbers[place] for place in places.tolist()]).reshape(4, 3))
    assert keys.index.dtype == np.uint64
    assert torch.equal(model({"g": keys.hashed(100_003)})["g"], small({"g": listed})["g"])


def test_keys_are_the_same_in_another_process() -> None:
    code = (
        "from loopwise.potentials import feature_keys, text_keys; "
        "print(int(feature_keys(3, [-7])[0]), int(text_keys(['Ärger', 'a', 'Ärger'])[2]))"
    )
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    words = text_keys(["Ärger", "a", "Ärger"])
    assert [int(feature_keys(3, [-7])[0]), int(words[0])] == [int(word) for word in other]
    assert words[0] == words[2] != words[1]
