"""Messages of an automaton: by going through all assignments, their adjoint by differences."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.automaton import automata_back, automata_send
from oracles.automata import ONE_OF, PARITY, automata, messages
from oracles.differences import slopes

ROWS = np.arange(2)


def send(moves: list[list[int]], final: np.ndarray, incoming: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    outgoing, possible = np.zeros(incoming.shape), np.ones((2, 2), np.bool_)
    automata_send(ROWS, automata(moves, 3, 4), final, incoming, outgoing, possible, np.zeros((2, 2), np.bool_))
    return outgoing, possible


@pytest.mark.parametrize("moves", [PARITY, ONE_OF], ids=["parity", "one of"])
def test_messages_and_their_adjoint(moves: list[list[int]]) -> None:
    rng = np.random.default_rng(0)
    incoming, final = rng.normal(size=(2, 14)), rng.normal(size=(2, 4))
    outgoing, possible = send(moves, final, incoming)
    assert possible.all()
    for row in range(2):
        for first, last, end in ((0, 6, 0), (6, 14, 2)):
            given = incoming[row, first:last].reshape(-1, 2)
            expected = messages(moves, len(given), final[row, end : end + 2], given)
            assert outgoing[row, first:last].reshape(-1, 2) == pytest.approx(expected, abs=1e-12)
    seed, of_incoming, of_final = rng.normal(size=incoming.shape), np.zeros((2, 14)), np.zeros((2, 4))
    done = np.zeros((2, 2), np.bool_)
    automata_back(ROWS, automata(moves, 3, 4), final, incoming, seed, of_incoming, of_final, done)
    assert of_incoming == pytest.approx(slopes(lambda x: (seed * send(moves, final, x)[0]).sum(), incoming), abs=1e-8)
    assert of_final == pytest.approx(slopes(lambda x: (seed * send(moves, x, incoming)[0]).sum(), final), abs=1e-8)


def test_nothing_possible_is_told() -> None:
    incoming = np.zeros((2, 14))
    incoming[0, [0, 2, 4]] = -np.inf  # all three are ON, which is odd
    final = np.array([[0.0, -np.inf, 0.0, 0.0]])
    assert send(PARITY, final, incoming)[1].tolist() == [[False, True], [True, True]]
