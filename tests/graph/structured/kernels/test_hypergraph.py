"""Inside and outside on a hypergraph: by going through all derivations, adjoints by differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loopwise.graph.structured.kernels.hypergraph import (
    HypergraphArrays,
    hypergraph_backward,
    hypergraph_derive,
    hypergraph_forward,
)
from oracles.differences import slopes
from oracles.trees import log_sum

# Nodes 0 to 2 are axioms; (head, tails), bottom-up; the root is 5.
HYPEREDGES = [(3, (0, 1)), (3, (1,)), (4, (3, 2)), (4, (2,)), (4, (0, 1, 2)), (5, (4,)), (5, (3, 4)), (5, ())]


def arrays() -> HypergraphArrays:
    heads = [head for head, _ in HYPEREDGES]
    into = [[edge for edge, head in enumerate(heads) if head == node] for node in range(6)]
    return HypergraphArrays(
        head=np.array(heads),
        tail_start=np.concatenate([[0], np.cumsum([len(tails) for _, tails in HYPEREDGES])]),
        tails=np.array([tail for _, tails in HYPEREDGES for tail in tails]),
        axiom=np.array([not edges for edges in into]),
        incoming_start=np.concatenate([[0], np.cumsum([len(edges) for edges in into])]),
        incoming=np.array([edge for edges in into for edge in edges]),
        root=5,
    )


def derivations(node: int = 5) -> list[tuple[int, ...]]:
    """The hyperedges of every derivation of a node, with repetitions."""
    if node < 3:
        return [()]
    found = []
    for edge, (head, tails) in enumerate(HYPEREDGES):
        if head == node:
            parts = product(*(derivations(tail) for tail in tails))
            found += [(edge, *(inner for part in chosen for inner in part)) for chosen in parts]
    return found


def log_z(weights: np.ndarray) -> float:
    return log_sum(np.array([weights[list(derivation)].sum() for derivation in derivations()]))


def forward(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total, gradient = np.empty(len(weights)), np.empty(weights.shape)
    hypergraph_forward(arrays(), weights, total, gradient)
    return total, gradient


def test_sums_derivatives_and_their_adjoint() -> None:
    rng = np.random.default_rng(16)
    weights = rng.normal(size=(2, 8))
    total, gradient = forward(weights)
    assert total == pytest.approx(np.array([log_z(row) for row in weights]))
    for row in range(2):  # w dZ/dw / Z is the expected number of uses
        assert np.exp(weights[row] + gradient[row] - total[row]) == pytest.approx(slopes(log_z, weights[row]), abs=1e-8)
    of_total, of_gradient, adjoint = rng.normal(size=2), rng.normal(size=(2, 8)), np.empty((2, 8))
    hypergraph_backward(arrays(), weights, of_total, of_gradient, adjoint)

    def value(at: np.ndarray) -> float:
        total, gradient = forward(at)
        return float((of_total * total).sum() + (of_gradient * gradient).sum())

    assert adjoint == pytest.approx(slopes(value, weights), abs=1e-7)


def test_the_best_derivation_and_drawn_ones() -> None:
    rng, count = np.random.default_rng(17), 4000
    weights, all_ = rng.normal(size=8), derivations()
    scores = np.array([weights[list(one)].sum() for one in all_])
    used, score = np.zeros((1, 8), np.bool_), np.empty(1)
    hypergraph_derive(arrays(), weights, np.empty((1, 0)), used, score)
    best = all_[int(scores.argmax())]
    assert score[0] == pytest.approx(scores.max()) and set(np.flatnonzero(used[0])) == set(best)
    used, score = np.zeros((count, 8), np.bool_), np.empty(count)
    hypergraph_derive(arrays(), weights, rng.random((count, 6)), used, score)
    assert score == pytest.approx(log_z(weights))
    expected = np.zeros(8)
    for one, share in zip(all_, np.exp(scores - log_z(weights)), strict=True):
        expected[list(set(one))] += share
    assert used.mean(0) == pytest.approx(expected, abs=5 * np.sqrt(0.25 / count))
