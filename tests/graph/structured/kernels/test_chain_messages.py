"""Messages of chains beside other factors: by all paths, their adjoint by differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loopwise.graph.structured.kernels.chain_messages import ChainArrays, chains_back, chains_send
from oracles.differences import slopes
from oracles.trees import log_sum

ROW = np.arange(1)
CHAINS = ChainArrays(np.array([0, 9]), np.array([3, 2]), np.array([3, 2]), np.array([0, 18]))


def send(steps: np.ndarray, incoming: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    outgoing, possible = np.zeros(incoming.shape), np.zeros((1, 2), np.bool_)
    chains_send(ROW, CHAINS, steps, incoming, outgoing, possible)
    return outgoing, possible


def enumerated(steps: np.ndarray, incoming: np.ndarray) -> np.ndarray:
    length, states = incoming.shape
    sent = np.full((length, states), -np.inf)
    for path in product(range(states), repeat=length):
        score = sum(incoming[at, state] for at, state in enumerate(path))
        score += sum(steps[at, path[at], path[at + 1]] for at in range(length - 1))
        for at, state in enumerate(path):
            sent[at, state] = np.logaddexp(sent[at, state], score - incoming[at, state])
    return sent - np.array([[log_sum(row)] for row in sent])


def test_messages_and_their_adjoint() -> None:
    rng = np.random.default_rng(3)
    steps, incoming = rng.normal(size=(1, 22)), 3 * rng.normal(size=(1, 13))
    outgoing, possible = send(steps, incoming)
    assert possible.all()
    first = enumerated(steps[0, :18].reshape(2, 3, 3), incoming[0, :9].reshape(3, 3))
    second = enumerated(steps[0, 18:].reshape(1, 2, 2), incoming[0, 9:].reshape(2, 2))
    assert outgoing[0] == pytest.approx(np.concatenate([first.reshape(-1), second.reshape(-1)]), abs=1e-12)
    seed, of_incoming, of_steps = rng.normal(size=incoming.shape), np.zeros((1, 13)), np.zeros((1, 22))
    chains_back(ROW, CHAINS, steps, incoming, seed, of_incoming, of_steps)
    assert of_incoming == pytest.approx(slopes(lambda x: (seed * send(steps, x)[0]).sum(), incoming), abs=1e-7)
    assert of_steps == pytest.approx(slopes(lambda x: (seed * send(x, incoming)[0]).sum(), steps), abs=1e-7)


def test_chains_without_a_path_are_told() -> None:
    steps, incoming = np.zeros((1, 22)), np.zeros((1, 13))
    steps[0, 18:] = -np.inf
    assert send(steps, incoming)[1].tolist() == [[True, False]]
