"""What differs between models of compiled walks: chosen when a loop is compiled, by the type of the model.

In: a model and a world as named tuples of arrays. Out: functions of the same name for labellings, clusterings (with
moves of one mention, or of blocks) and models of users, and what both loops over them share. Below the stages.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.extending import overload

from loopwise.compiled.decorators import inlined
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.walk.kernels import blocks as blocks
from loopwise.walk.kernels import cluster_state as cluster_state
from loopwise.walk.kernels import clusters as clusters
from loopwise.walk.kernels import label_signals as label_signals
from loopwise.walk.kernels import labels as labels
from loopwise.walk.kernels.clusters import ClusterArrays
from loopwise.walk.kernels.delta import Delta
from loopwise.walk.kernels.labels import LabelArrays
from loopwise.walk.kernels.user import UserArrays

# Without reference counts: counting them for each array of a model, at each call, takes ten times as long as the steps.
# What runs at every step is inlined besides, for else each call copies the hundred words that describe a model.
_COLD = {"_nrt": False, "nogil": True}
_HOT = {**_COLD, "forceinline": True}


class Work(NamedTuple):
    """Memory that a walk needs, made once."""

    delta: Delta
    truth: Delta  # features of the truth less those of the state
    gold: Delta  # features of the truth
    generator: np.ndarray  # uint64 [4]
    move: np.ndarray  # int64 [4]
    pair: np.ndarray  # int64 [3]
    stack: np.ndarray  # int64 [steps between resets, 4], the moves since
    items: np.ndarray  # int64 [largest document]: a state to go back to, or the items changed since the best state


@inlined
def accepts(score, ratio, temperature, generator):
    """Metropolis and Hastings: always where the ratio is infinite (Gibbs)."""
    if ratio == np.inf:
        return True
    uniform = next_uniform(generator)
    level = score / temperature + ratio
    return level >= 0.0 or math.log(uniform) < level


# -------------------------------------------------------------------------- the functions, and their four forms


def _by_model(for_labels, for_clusters, for_users, for_blocks=None):
    """A function of a model that is one of four, by the model's class; blocks of mentions are as mentions, if it is not
    said otherwise."""
    forms = {LabelArrays: for_labels, ClusterArrays: for_clusters, UserArrays: for_users}
    forms[blocks.BlockArrays] = for_blocks or for_clusters

    def choose(model):
        return forms.get(getattr(model, "instance_class", None))

    return choose


def extent(model, document):
    """First and last place of a document in the arrays of all documents."""


def begin(model, world, document, kind, generator):
    """Sets the start state."""


def propose(model, world, document, weights, temperature, step, generator, move, pair):
    """Fills ``move``; whether it changes anything, and its log ratio."""


def delta_features(model, world, document, move, delta):
    """Adds the features after the move less those before."""


def emit_ranked(model, world, document, pair, delta):
    """Adds the features of the better state of ``pair`` less those of the worse; what the signal gains."""


def gain_of(model, world, document, move):
    """What the signal gains by the move."""


def apply_move(model, world, document, move):
    """Makes the move."""


def undo_move(model, world, document, move):
    """Takes the last move back."""


def emit_state(model, world, document, sign, delta):
    """Adds ``sign`` times the features of the state."""


def gap_of(model, world, document):
    """The signal of the truth less that of the state."""


def single_changes(model):
    """Whether a move changes one item only, the first number of the move."""


def record(model, world, document, counts):
    """Counts the state: values of variables, or pairs of mentions in one entity."""


@overload(extent, jit_options=_HOT)
def _extent(model, document):
    def for_labels(model, document):
        return model.table[model.document_start + document], model.table[model.document_start + document + 1]

    def for_clusters(model, document):
        return model.table[model.mention_start + document], model.table[model.mention_start + document + 1]

    def for_users(model, document):
        return model.state_start[document], model.state_start[document + 1]

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(begin, jit_options=_COLD)
def _begin(model, world, document, kind, generator):
    def for_labels(model, world, document, kind, generator):
        label_signals.begin_labels(model, world, document, kind, generator)

    def for_clusters(model, world, document, kind, generator):
        cluster_state.begin_clusters(model, world, document, kind, generator)

    def for_users(model, world, document, kind, generator):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.start(model.data, model.number[document], state, kind, generator)

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(propose, jit_options=_HOT)
def _propose(model, world, document, weights, temperature, step, generator, move, pair):
    def for_labels(model, world, document, weights, temperature, step, generator, move, pair):
        return labels.propose_label(model, world, document, weights, temperature, step, generator, move, pair)

    def for_clusters(model, world, document, weights, temperature, step, generator, move, pair):
        return clusters.propose_mention(model, world, document, generator, move)

    def for_users(model, world, document, weights, temperature, step, generator, move, pair):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        return model.propose(model.data, model.number[document], state, generator, move)

    def for_blocks(model, world, document, weights, temperature, step, generator, move, pair):
        return blocks.propose_block(model, world, document, generator, move)

    return _by_model(for_labels, for_clusters, for_users, for_blocks)(model)


@overload(delta_features, jit_options=_HOT)
def _delta_features(model, world, document, move, delta):
    def for_labels(model, world, document, move, delta):
        labels.emit_value(model, world, document, move[0], move[1], -1.0, delta)
        labels.emit_value(model, world, document, move[0], move[2], 1.0, delta)

    def for_clusters(model, world, document, move, delta):
        clusters.emit_mention_move(model, world, document, move[0], move[1], move[2], delta)

    def for_users(model, world, document, move, delta):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.difference(model.data, model.number[document], state, move, delta)

    def for_blocks(model, world, document, move, delta):
        blocks.emit_move(model, world, document, move, delta)

    return _by_model(for_labels, for_clusters, for_users, for_blocks)(model)


@overload(emit_ranked, jit_options=_COLD)
def _emit_ranked(model, world, document, pair, delta):
    def for_labels(model, world, document, pair, delta):
        labels.emit_value(model, world, document, pair[0], pair[1], -1.0, delta)
        labels.emit_value(model, world, document, pair[0], pair[2], 1.0, delta)
        return world.gains[pair[2]] - world.gains[pair[1]]

    def elsewhere(model, world, document, pair, delta):
        return 0.0

    return _by_model(for_labels, elsewhere, elsewhere)(model)


@overload(gain_of, jit_options=_HOT)
def _gain_of(model, world, document, move):
    def for_labels(model, world, document, move):
        return label_signals.label_gain(model, world, document, move[0], move[1], move[2])

    def for_clusters(model, world, document, move):
        return cluster_state.mention_gain(model, world, document, move[0], move[1], move[2])

    def for_users(model, world, document, move):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        return model.gain(model.data, model.number[document], state, move)

    def for_blocks(model, world, document, move):
        return blocks.move_gain(model, world, document, move)

    return _by_model(for_labels, for_clusters, for_users, for_blocks)(model)


@overload(apply_move, jit_options=_HOT)
def _apply_move(model, world, document, move):
    def for_labels(model, world, document, move):
        label_signals.apply_label(model, world, document, move[0], move[1], move[2])

    def for_clusters(model, world, document, move):
        cluster_state.apply_mention(model, world, document, move)

    def for_users(model, world, document, move):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.apply(model.data, model.number[document], state, move)

    def for_blocks(model, world, document, move):
        blocks.make_move(model, world, document, move)

    return _by_model(for_labels, for_clusters, for_users, for_blocks)(model)


@overload(undo_move, jit_options=_COLD)
def _undo_move(model, world, document, move):
    def for_labels(model, world, document, move):
        label_signals.apply_label(model, world, document, move[0], move[2], move[1])

    def for_clusters(model, world, document, move):
        cluster_state.undo_mention(model, world, document, move)

    def for_users(model, world, document, move):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.undo(model.data, model.number[document], state, move)

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(emit_state, jit_options=_COLD)
def _emit_state(model, world, document, sign, delta):
    def for_labels(model, world, document, sign, delta):
        labels.emit_labelling(model, world.states, document, sign, delta)

    def for_clusters(model, world, document, sign, delta):
        clusters.emit_clustering(model, world, document, sign, delta)

    def for_users(model, world, document, sign, delta):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.features(model.data, model.number[document], state, sign, delta)

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(gap_of, jit_options=_COLD)
def _gap_of(model, world, document):
    def for_labels(model, world, document):
        return label_signals.label_gap(model, world, document)

    def for_clusters(model, world, document):
        return cluster_state.cluster_gap(model, world, document)

    def for_users(model, world, document):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        return model.gap(model.data, model.number[document], state)

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(single_changes, jit_options=_COLD)
def _single_changes(model):
    def always(model):
        return True

    def never(model):
        return False

    return _by_model(always, always, never, never)(model)


@overload(record, jit_options=_COLD)
def _record(model, world, document, counts):
    def for_labels(model, world, document, counts):
        start, end = model.table[model.document_start + document], model.table[model.document_start + document + 1]
        for place in range(start, end):
            counts[(place - start) * model.width + world.states[place]] += 1

    def for_clusters(model, world, document, counts):
        place, start = 0, model.table[model.mention_start + document]
        mentions = model.table[model.mention_start + document + 1] - start
        for one in range(mentions):
            for other in range(one + 1, mentions):
                counts[place] += world.states[start + one] == world.states[start + other]
                place += 1

    def for_users(model, world, document, counts):
        pass

    return _by_model(for_labels, for_clusters, for_users)(model)
