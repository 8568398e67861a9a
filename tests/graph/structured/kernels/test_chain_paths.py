"""The best path of a chain and drawn ones, against all paths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loopwise.graph.structured.kernels.chain_paths import best_paths, sample_paths


def all_paths(unary: np.ndarray, pair: np.ndarray) -> tuple[list[tuple[int, ...]], np.ndarray]:
    length, states = unary.shape
    paths = list(product(range(states), repeat=length))
    steps = range(length - 1)
    scores = [
        sum(unary[t, s] for t, s in enumerate(p)) + sum(pair[t + 1, p[t], p[t + 1]] for t in steps) for p in paths
    ]
    return paths, np.array(scores)


@pytest.mark.parametrize("shared", [False, True])
def test_the_best_path_of_each_chain(shared: bool) -> None:
    rng, start = np.random.default_rng(10), np.array([0, 4, 4, 7])
    unary, pair = rng.normal(size=(7, 3)), rng.normal(size=(1 if shared else 7, 3, 3))
    path, score = np.full(7, -1), np.full(3, np.nan)
    best_paths(unary, pair, start, 0, 3, path, score)
    whole = np.broadcast_to(pair, (7, 3, 3))
    for chain, (begin, end) in enumerate(((0, 4), (4, 4), (4, 7))):
        if begin == end:
            assert score[chain] == 0.0
            continue
        paths, scores = all_paths(unary[begin:end], whole[begin:end])
        assert tuple(path[begin:end]) == paths[int(scores.argmax())]
        assert score[chain] == pytest.approx(scores.max())


def test_drawn_paths_have_their_probabilities() -> None:
    rng, count = np.random.default_rng(11), 4000
    paths, scores = all_paths(rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2)))
    probabilities = np.exp(scores) / np.exp(scores).sum()
    single, double = np.zeros((3, 2)), np.zeros((3, 2, 2))
    for path, share in zip(paths, probabilities, strict=True):
        for token in range(3):
            single[token, path[token]] += share
            if token:
                double[token, path[token - 1], path[token]] += share
    start = 3 * np.arange(count + 1)
    drawn = np.empty(3 * count, np.int64)
    sample_paths(
        start, 0, count, np.tile(single, (count, 1)), np.tile(double, (count, 1, 1)), rng.random(3 * count), drawn
    )
    found = np.bincount(drawn.reshape(count, 3) @ [4, 2, 1], minlength=8) / count
    assert found == pytest.approx(probabilities, abs=5 * np.sqrt(0.25 / count))
