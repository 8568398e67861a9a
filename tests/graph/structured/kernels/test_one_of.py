"""Messages of exactly one and at most one in closed form: by all assignments, their adjoint by differences."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.graph.structured.kernels.one_of import one_of_back, one_of_send
from oracles.automata import ONE_OF, automata, messages
from oracles.differences import slopes

ROW = np.arange(1)
FINALS = {"exactly": np.array([[-np.inf, 0.0, -np.inf, 0.0]]), "at most": np.zeros((1, 4))}


def send(final: np.ndarray, incoming: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    outgoing, done = np.zeros(incoming.shape), np.zeros((1, 2), np.bool_)
    one_of_send(ROW, automata(ONE_OF, 2, 4), final, incoming, outgoing, np.ones((1, 2), np.bool_), done)
    return outgoing, done


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("kind", FINALS)
def test_messages_and_their_adjoint(kind: str, scale: float) -> None:
    rng, final = np.random.default_rng(2), FINALS[kind]
    incoming = scale * rng.normal(size=(1, 12))
    outgoing, done = send(final, incoming)
    assert done.all()
    for first, last, end in ((0, 4, 0), (4, 12, 2)):
        given = incoming[0, first:last].reshape(-1, 2)
        expected = messages(ONE_OF, len(given), final[0, end : end + 2], given)
        assert outgoing[0, first:last].reshape(-1, 2) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    seed, of_incoming = rng.normal(size=incoming.shape), np.zeros(incoming.shape)
    one_of_back(
        ROW, automata(ONE_OF, 2, 4), final, incoming, seed, of_incoming, np.zeros((1, 4)), np.zeros((1, 2), np.bool_)
    )
    assert of_incoming == pytest.approx(slopes(lambda x: (seed * send(final, x)[0]).sum(), incoming), abs=1e-7)


def test_values_that_are_ruled_out_are_left_to_others() -> None:
    incoming = np.zeros((1, 12))
    incoming[0, 1] = -np.inf
    assert send(FINALS["exactly"], incoming)[1].tolist() == [[False, True]]
