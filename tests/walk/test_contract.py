"""The shipped check passes every walk of the library and one of a user's own, and catches what is broken."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.kernels.gibbs import next_uniform
from loopwise.kernels.walk_delta import add
from loopwise.testing.walk import check_walk
from walk_cases import chain_documents, chain_model, cluster_model, mention_document


@pytest.mark.parametrize("proposal", [walk.Gibbs(), walk.UniformChange(), walk.ForcedFlip(), walk.AllValues()])
def test_labels(proposal: walk.Proposal) -> None:
    check_walk(chain_model(), proposal, lw.metric.Accuracy(), chain_documents((1, 3, 6)), steps=40)


@pytest.mark.parametrize("metric", [lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed()])
def test_clusterings(metric: Any) -> None:
    documents = [mention_document(size, setwise=True, links=True) for size in (1, 4, 8)]
    for two_sided in (False, True):
        model = cluster_model(setwise=True, two_sided=two_sided, links=two_sided)
        check_walk(model, walk.MentionMover(), metric, documents, steps=40)


@pytest.mark.parametrize("metric", [lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed()])
def test_block_moves(metric: Any) -> None:
    mixture = walk.Mixture((walk.MentionMover(), walk.SplitMerge(), walk.BalancedMover()))
    model, document = cluster_model(setwise=True, links=True), mention_document(7, setwise=True, links=True)
    check_walk(model, mixture, metric, [document], steps=60)


def test_what_is_broken_is_caught() -> None:
    class Forgetful(walk.ClusterModel):
        """Leaves the entity that the mention joins out of the difference."""

        def touched(self, world: Any, move: walk.Move) -> Any:
            factors = list(super().touched(world, move))
            return [factor for factor in factors if factor[0] != ("entity", move.changes[0][2])]

        def compiled(self, *arguments: Any) -> None:
            return None

    documents = [mention_document(5)]
    with pytest.raises(AssertionError, match="feature"):
        check_walk(Forgetful(6, setwise=True), walk.MentionMover(), lw.metric.BCubed(), documents)

    class Sloppy(lw.metric.BCubed):
        def track(self, truth: Any, state: Any) -> Any:
            tracker = super().track(truth, state)
            honest = tracker.gain
            tracker.gain = lambda changes: honest(changes) + 1e-3  # type: ignore[method-assign]
            return tracker

    with pytest.raises(AssertionError, match="gain"):
        check_walk(cluster_model(), walk.MentionMover(), Sloppy(), documents)

    class WithCareless(walk.ClusterModel):
        def world_of(self, document: Any, labels: Any) -> Any:
            world = super().world_of(document, labels)
            world.restore = lambda token: (type(world).restore(world, token), world.active.reverse())  # type: ignore
            return world

    with pytest.raises(AssertionError, match="taken back leaves"):
        check_walk(WithCareless(6), walk.MentionMover(), lw.metric.BCubed(), documents)


# ---------------------------------------------------- a model of one's own: a ring of spins, plain and compiled


class Spins(walk.Model):
    """Spins on a ring; weight 0 counts ones, weight 1 equal neighbours."""

    size = 2

    def world(self, document: Any, start: walk.Start, random: walk.Stream) -> walk.World:
        values = list(document) if start is walk.Start.TRUTH else [random.below(2) for _ in document]
        return self.world_of(document, values)

    def world_of(self, document: Any, labels: Any) -> walk.World:
        return walk.Labelling(labels, [2] * len(labels))

    def factors(self, world: walk.World) -> Any:
        values = world.labels()
        for place, value in enumerate(values):
            yield ("one", place), [(0, float(value))]
            yield ("two", place), [(1, float(value == values[(place + 1) % len(values)]))]


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


def test_a_model_of_ones_own_plain() -> None:
    rings = [[0, 1, 1, 1, 0], [1, 1, 0, 0, 0]]
    check_walk(Spins(), walk.UniformChange(), lw.metric.Correct(), rings)
    learner = walk.SampleRank(Spins(), walk.UniformChange(), metric=lw.metric.Correct(), step=walk.MIRA())
    learner.fit(rings, steps=200, epochs=2)
    assert learner.decode(rings[0], steps=200).labels()


def test_a_model_of_ones_own_compiled() -> None:
    rings = np.array([[0, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    functions = walk.WalkFunctions(_start, _propose, _difference, _gain, _apply, _undo, _features, _gap)
    model = walk.CompiledModel(2, functions, rings, [5, 5])
    found = []
    for engine in (walk.Plain(), walk.Compiled()):
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
