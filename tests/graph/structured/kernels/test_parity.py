"""Messages of parities in closed form: by all assignments, their adjoint by differences; what strays is left out."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.parity import LARGEST, parities_back, parities_send
from oracles.automata import PARITY, automata, messages
from oracles.differences import slopes

ROW = np.arange(1)


def send(final: np.ndarray, incoming: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    outgoing, possible, done = np.zeros(incoming.shape), np.ones((1, 2), np.bool_), np.zeros((1, 2), np.bool_)
    parities_send(ROW, automata(PARITY, 3, 4), final, incoming, outgoing, possible, done)
    return outgoing, possible, done


@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_messages_and_their_adjoint(scale: float) -> None:
    rng = np.random.default_rng(1)
    incoming, final = scale * rng.normal(size=(1, 14)), rng.normal(size=(1, 4))
    outgoing, possible, done = send(final, incoming)
    assert possible.all() and done.all()
    for first, last, end in ((0, 6, 0), (6, 14, 2)):
        given = incoming[0, first:last].reshape(-1, 2)
        expected = messages(PARITY, len(given), final[0, end : end + 2], given)
        assert outgoing[0, first:last].reshape(-1, 2) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    seed, of_incoming, of_final = rng.normal(size=incoming.shape), np.zeros((1, 14)), np.zeros((1, 4))
    parities_back(ROW, automata(PARITY, 3, 4), final, incoming, seed, of_incoming, of_final, np.zeros((1, 2), np.bool_))
    assert of_incoming == pytest.approx(slopes(lambda x: (seed * send(final, x)[0]).sum(), incoming), abs=1e-7)
    assert of_final == pytest.approx(slopes(lambda x: (seed * send(x, incoming)[0]).sum(), final), abs=1e-7)


def test_ratios_beyond_probabilities_are_left_to_others() -> None:
    incoming = np.zeros((1, 14))
    incoming[0, 0] = LARGEST + 1
    assert send(np.zeros((1, 4)), incoming)[2].tolist() == [[False, True]]


def test_ruled_out_values_are_sent_and_contradictions_told() -> None:
    incoming = np.zeros((1, 14))
    incoming[0, [0, 2]] = -np.inf  # two of three are ON; an even number in all: the third is OFF
    final = np.array([[0.0, -np.inf, 0.0, 0.0]])
    outgoing, possible, _ = send(final, incoming)
    assert outgoing[0, 4:6].tolist() == [0.0, -np.inf] and possible.all()
    incoming[0, 4] = -np.inf
    assert send(final, incoming)[1].tolist() == [[False, True]]
