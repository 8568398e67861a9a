"""Compiled walks whose moves may take several mentions at a time: entities split and merge.

In: documents of mentions with the share of such moves. Out: proposals and what a block changes. Below the stages. A
block is a row of moves of single mentions: its features and its gain are those of making them one after another, and
the state is then put back, sums of the signal to the last bit. A step costs what its moves cost, twice if it is made.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from loopwise.compiled.decorators import inlined, leaf
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.walk.kernels.cluster_state import apply_mention, cluster_gap, mention_gain, undo_mention
from loopwise.walk.kernels.clusters import ClusterArrays, emit_mention_move, propose_mention

# The arrays of clusterings, and in which share of the steps a block is proposed; 1: always, without a draw.
BlockArrays = namedtuple("BlockArrays", (*ClusterArrays._fields, "share"))  # type: ignore[misc]


@leaf
def propose_block(model, world, document, generator, move):
    """A move of one mention, or a block of them (move: the first mention, old, new, how many)."""
    world.lists[world.block] = 0
    if model.share < 1.0 and next_uniform(generator) < 1.0 - model.share:
        return propose_mention(model, world, document, generator, move)
    mentions = model.table[model.mention_start + document + 1] - model.table[model.mention_start + document]
    if mentions < 2:
        return False, 0.0
    one = np.int64(next_uniform(generator) * mentions)
    other = np.int64(next_uniform(generator) * (mentions - 1))
    if other >= one:
        other += 1
    start = model.table[model.mention_start + document]
    old, new = world.states[start + other], world.states[start + one]
    size = world.lists[world.size + old * world.row]
    if old != new:
        _list_merge(world, old, new)
        change = -(size + world.lists[world.size + new * world.row] - 2) * math.log(2.0)
    else:
        new = world.lists[world.free + world.lists[world.count + 1] - 1]
        _list_split(world, old, new, one, other, generator)
        change = (size - 2) * math.log(2.0)
    move[0], move[1], move[2], move[3] = world.lists[world.block + 1], old, new, world.lists[world.block]
    return True, change


@leaf
def _put(world, mention, old, new):
    """One more mention of the block."""
    place = world.block + 1 + 4 * world.lists[world.block]
    world.lists[place], world.lists[place + 1], world.lists[place + 2] = mention, old, new
    world.lists[world.block] += 1


@leaf
def _list_merge(world, old, new):
    """All members of an entity."""
    mention = world.lists[world.first + old * world.row]
    while mention >= 0:
        _put(world, mention, old, new)
        mention = world.lists[world.following + mention]


@leaf
def _list_split(world, old, new, stays, leaves, generator):
    """Of an entity the mention that leaves, and of the others but the one that stays each by a fair coin."""
    mention = world.lists[world.first + old * world.row]
    while mention >= 0:
        if mention == leaves or (mention != stays and next_uniform(generator) >= 0.5):
            _put(world, mention, old, new)
        mention = world.lists[world.following + mention]


@leaf
def _apply_all(model, world, document):
    for number in range(world.lists[world.block]):
        place = world.block + 1 + 4 * number
        apply_mention(model, world, document, world.lists[place : place + 4])


@leaf
def _undo_all(model, world, document):
    for number in range(world.lists[world.block] - 1, -1, -1):
        place = world.block + 1 + 4 * number
        undo_mention(model, world, document, world.lists[place : place + 4])


@leaf
def _emit_block(model, world, document, delta):
    first, second = world.sums[0], world.sums[1]
    for number in range(world.lists[world.block]):
        place = world.block + 1 + 4 * number
        mention, old, new = world.lists[place], world.lists[place + 1], world.lists[place + 2]
        emit_mention_move(model, world, document, mention, old, new, delta)
        apply_mention(model, world, document, world.lists[place : place + 4])
    _undo_all(model, world, document)
    world.sums[0], world.sums[1] = first, second


@leaf
def _block_gain(model, world, document):
    first, second = world.sums[0], world.sums[1]
    before = cluster_gap(model, world, document)
    _apply_all(model, world, document)
    after = cluster_gap(model, world, document)
    _undo_all(model, world, document)
    world.sums[0], world.sums[1] = first, second
    return before - after


@inlined
def emit_move(model, world, document, move, delta):
    """Features after the move less those before; the state is left as it is."""
    if world.lists[world.block] > 0:
        _emit_block(model, world, document, delta)
    else:
        emit_mention_move(model, world, document, move[0], move[1], move[2], delta)


@inlined
def move_gain(model, world, document, move):
    """How much the signal rises by the move."""
    if world.lists[world.block] > 0:
        return _block_gain(model, world, document)
    return mention_gain(model, world, document, move[0], move[1], move[2])


@inlined
def make_move(model, world, document, move):
    """Makes the move."""
    if world.lists[world.block] > 0:
        _apply_all(model, world, document)
    else:
        apply_mention(model, world, document, move)
