"""A model of one's own, compiled."""

from __future__ import annotations

import numba
import numpy as np

from loopwise import walk
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.testing.walk import check_walk
from loopwise.walk.kernels.delta import add
from oracles.spins import Spins


@numba.njit
def _start(data, document, state, kind, generator):
    for place in range(len(state)):
        if kind == 0:
            state[place] = data[document, place]
        elif kind != 2:
            state[place] = np.int64(next_uniform(generator) * 2)


@numba.njit
def _propose(data, document, state, generator, move):
    move[0] = np.int64(next_uniform(generator) * len(state))
    move[1] = state[move[0]]
    move[2] = 1 - move[1]
    return True, 0.0


@numba.njit
def _difference(data, document, state, move, delta):
    place, old, new = move[0], move[1], move[2]
    before, after = state[place - 1], state[(place + 1) % len(state)]
    add(delta, 0, float(new - old))
    add(delta, 1, float((new == before) * 1 + (new == after) * 1 - (old == before) * 1 - (old == after) * 1))


@numba.njit
def _gain(data, document, state, move):
    gold = data[document, move[0]]
    return (move[2] == gold) * 1.0 - (move[1] == gold) * 1.0


@numba.njit
def _apply(data, document, state, move):
    state[move[0]] = move[2]


@numba.njit
def _undo(data, document, state, move):
    state[move[0]] = move[1]


@numba.njit
def _features(data, document, state, sign, delta):
    for place in range(len(state)):
        add(delta, 0, sign * state[place])
        add(delta, 1, sign * (state[place] == state[(place + 1) % len(state)]))


@numba.njit
def _gap(data, document, state):
    wrong = 0
    for place in range(len(state)):
        wrong += state[place] != data[document, place]
    return float(wrong)


def test_a_model_of_ones_own_compiled() -> None:
    rings = np.array([[0, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    functions = walk.WalkFunctions(_start, _propose, _difference, _gain, _apply, _undo, _features, _gap)
    model = walk.CompiledModel(2, functions, rings, [5, 5])
    found = []
    for engine in (walk.Plain(), walk.CompiledWalks()):
        learner = walk.SampleRank(model, model.proposal, metric=model.metric, step=walk.MIRA(), engine=engine)
        learner.fit([0, 1], steps=100, epochs=2)
        found.append((learner.raw, learner.tally, learner.decode(1, steps=50).tolist()))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]
    check_walk(model, model.proposal, model.metric, [0, 1], steps=30)
    plain = Spins()
    for labels in ([0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]):
        mine, theirs = model.features(model.world_of(0, labels)), plain.features(plain.world_of(None, labels))
        assert {key: value for key, value in mine.items() if value} == {
            key: value for key, value in theirs.items() if value
        }
