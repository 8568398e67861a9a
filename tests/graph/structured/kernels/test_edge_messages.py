"""From messages to matrices of log-odds and back, and the adjoints of both."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.edge_messages import Trees, edge_adjoints, edge_messages, edge_scores, edge_seeds
from oracles.differences import slopes

ROWS = np.array([1, 0])
TREES = Trees(np.array([0, 2, 3]), np.array([2, 0, 4]), np.array([1, 3, 6]), 8)


def test_odds_of_messages() -> None:
    incoming = np.log(np.array([[0.2, 0.8, 0.5, 0.5, 0.1, 0.9], [0.3, 0.7, 0.6, 0.4, 0.25, 0.75]]))
    incoming[0, 2:4], incoming[1, 4:6] = (-np.inf, 0.0), (0.0, -np.inf)
    scores = np.empty(16)
    edge_scores(ROWS, TREES, incoming, scores)
    expected = np.full((2, 8), -np.inf)
    expected[0, [1, 3]] = np.log([0.4 / 0.6, 0.7 / 0.3])  # row 1 stands first
    expected[1, [1, 3, 6]] = np.inf, np.log(0.8 / 0.2), np.log(9.0)
    assert scores.reshape(2, 8) == pytest.approx(expected)


def test_messages_of_odds_and_their_adjoints() -> None:
    rng = np.random.default_rng(4)
    odds, back = 5 * rng.normal(size=16), rng.normal(size=(2, 6))

    def send(values: np.ndarray) -> np.ndarray:
        outgoing = np.zeros((2, 6))
        edge_messages(ROWS, TREES, values, outgoing)
        return outgoing

    sent = send(odds)
    assert np.exp(sent).reshape(2, 3, 2).sum(-1) == pytest.approx(1.0)
    assert sent[0, [3, 1, 5]] - sent[0, [2, 0, 4]] == pytest.approx(odds[8:][TREES.cell])
    seeds = np.empty(16)
    edge_seeds(ROWS, TREES, odds, back, seeds)
    assert seeds == pytest.approx(slopes(lambda x: (back * send(x)).sum(), odds), abs=1e-8)


def test_adjoints_go_to_both_values_with_opposite_signs() -> None:
    scores, pulled, seeds = np.zeros(16), np.arange(16.0), np.ones(16)
    scores[1] = np.inf  # an edge that must be there has no slope
    of_incoming = np.zeros((2, 6))
    edge_adjoints(ROWS, TREES, scores, pulled, seeds, of_incoming)
    assert of_incoming.tolist() == [[-10.0, 10.0, -8.0, 8.0, -13.0, 13.0], [-2.0, 2.0, 0.0, 0.0, -5.0, 5.0]]
