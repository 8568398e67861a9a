"""Compiled walks over clusterings: mentions that move between entities.

In: features of pairs of mentions in compressed rows, predicates of pairs and attributes of mentions to be summed over
each entity. Out: proposals, feature differences, gains of the signal. Below the stages. A step costs what the two
entities of a move cost, not what the document does.

Members of an entity are a list linked in ascending order, so that the order of additions depends on the state and not
on how the walk came there. Only the document being walked has lists and sums; of the others the entities are kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from loopwise.kernels.gibbs import next_uniform
from loopwise.kernels.walk_codes import (
    ALL,
    B_CUBED,
    COUNT_BINS,
    MEAN,
    MEANS,
    MOST,
    NONE,
    PAIR_ACCURACY,
    PAIR_F,
    PER_PREDICATE,
    PER_VALUE,
    RANDOM,
    SINGLETONS,
    SOME,
    TRUTH,
)
from loopwise.kernels.walk_delta import add

_MEANS = np.array(MEANS)


class ClusterArrays(NamedTuple):
    """Documents of mentions. Integers lie in ``table`` and ``small``; a field says where its part begins.

    Pair (i, j), i < j, of M mentions is number i (2 M - i - 1) / 2 + j - i - 1.
    """

    table: np.ndarray  # int64: the first part of the fields
    small: np.ndarray  # int32: the second
    value: np.ndarray  # float64 [entries], or [0] where all are 1
    mention_start: int  # [documents + 1]
    pair_start: int  # [documents + 1]
    row_start: int  # [rows + 1]
    gold: int  # [mentions], numbered from 0 in each document
    predicate_scale: int  # [predicates]
    value_start: int  # [attributes + 1], the values of each attribute
    pair_row: int  # [pairs], row of the features; pairs alike share one
    index: int  # [entries]
    predicate: int  # [rows, predicates], whole numbers from 0 to the scale
    attribute: int  # [mentions, attributes], -1 where unknown
    features: int  # weights of pairs in one entity; those of pairs apart follow, if two-sided
    two_sided: bool
    setwise: bool
    predicates: int  # how many
    attributes: int  # how many
    size_base: int  # first weight of the bins of an entity's size
    predicate_base: int
    value_base: int
    distinct_base: int
    metric: int


class ClusterWorld(NamedTuple):
    """The entity of each mention of each document, and lists and sums of the document being walked.

    The latter lie in ``lists``; a field says where its part begins.
    """

    states: np.ndarray  # int64 [mentions]: the entity of each
    lists: np.ndarray  # int64
    sums: np.ndarray  # float64 [2]: B-cubed precision and recall, summed over mentions
    following: int  # [largest document]: next member, -1 at the end
    first: int  # [largest document]: first member of an entity, -1 where empty
    size: int  # [largest document]
    active: int  # [largest document]: the entities that are not empty
    place: int  # [largest document]: where an entity stands in `active`
    free: int  # [largest document]: a stack of the empty ones
    count: int  # [2]: how many are active, how many free
    totals: int  # [largest document, predicates], sums over the pairs of an entity
    values: int  # [largest document, kinds], how many members have a value
    leaving: int  # [predicates], sums over the pairs of a mention with its entity
    joining: int  # [predicates], with the entity it would join
    gold_size: int  # [largest document]: mentions of each entity of the truth
    purity: int  # [largest document]: sum of squared numbers of each true entity's mentions
    pairs: int  # [4]: all, in one entity in both, here, in the truth
    near: int  # [4]: others in the old entity, those of the same truth, in the new one, likewise
    predicates: int  # how many
    kinds: int  # values of all attributes


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _pair(model, document, one, other):
    mentions = model.table[model.mention_start + document + 1] - model.table[model.mention_start + document]
    low, high = min(one, other), max(one, other)
    return model.table[model.pair_start + document] + low * (2 * mentions - low - 1) // 2 + high - low - 1


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _emit_pair(model, document, one, other, offset, sign, delta):
    row = model.small[model.pair_row + _pair(model, document, one, other)]
    weighted = len(model.value) > 0
    for place in range(model.table[model.row_start + row], model.table[model.row_start + row + 1]):
        add(delta, offset + np.int64(model.small[model.index + place]), sign * model.value[place] if weighted else sign)


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _emit_pairs(model, world, document, mention, entity, offset, sign, delta):
    """The features of the pairs of ``mention`` with the members of ``entity``."""
    other = world.lists[world.first + entity]
    while other >= 0:
        if other != mention:
            _emit_pair(model, document, mention, other, offset, sign, delta)
        other = world.lists[world.following + other]


@njit(cache=True, nogil=True, _nrt=False)
def _sum_predicates(model, world, document, mention, entity, sums):
    for predicate in range(model.predicates):
        world.lists[sums + predicate] = 0
    other = world.lists[world.first + entity]
    while other >= 0:
        if other != mention:
            row = model.small[model.pair_row + _pair(model, document, mention, other)]
            for predicate in range(model.predicates):
                world.lists[sums + predicate] += model.small[model.predicate + row * model.predicates + predicate]
        other = world.lists[world.following + other]


# ------------------------------------------------------------------------------------- features of entities


@njit(cache=True, nogil=True, _nrt=False)
def size_bin(size):
    """1, 2, 3, 4, 5 to 8, 9 to 16, more."""
    if size <= 4:
        return size - 1
    return 4 if size <= 8 else 5 if size <= 16 else 6


@njit(cache=True, nogil=True, _nrt=False)
def count_bin(count):
    """0, 1, 2, 3 to 5, more."""
    if count <= 2:
        return count
    return 3 if count <= 5 else 4


@njit(cache=True, nogil=True, _nrt=False)
def _emit_predicate(key, total, most, sign, delta):
    if total == most:
        add(delta, key + ALL, sign)
    if total > 0:
        add(delta, key + SOME, sign)
    if 2 * total > most:
        add(delta, key + MOST, sign)
    if total == 0:
        add(delta, key + NONE, sign)
    for level in range(len(_MEANS)):
        if total > _MEANS[level] * most:
            add(delta, key + MEAN + level, sign)


@njit(cache=True, nogil=True, _nrt=False)
def _emit_entity(model, world, document, entity, mention, shift, sums, sign, delta):
    """The features of an entity: as it is (``shift`` 0), with ``mention`` added (1) or taken away (-1)."""
    size = world.lists[world.size + entity] + shift
    if size <= 0:
        return
    add(delta, model.size_base + size_bin(size), sign)
    pairs = size * (size - 1) // 2
    if pairs > 0:
        for predicate in range(model.predicates):
            total = (
                world.lists[world.totals + entity * world.predicates + predicate]
                + shift * world.lists[sums + predicate]
            )
            key = model.predicate_base + PER_PREDICATE * predicate
            _emit_predicate(key, total, pairs * model.table[model.predicate_scale + predicate], sign, delta)
    here = model.table[model.mention_start + document] + mention
    for attribute in range(model.attributes):
        distinct = 0
        first = model.table[model.value_start + attribute]
        for value in range(first, model.table[model.value_start + attribute + 1]):
            count = world.lists[world.values + entity * world.kinds + value]
            if shift != 0 and model.small[model.attribute + here * model.attributes + attribute] == value - first:
                count += shift
            distinct += count > 0
            key = model.value_base + PER_VALUE * value
            add(delta, key + count_bin(count), sign)
            if count == size:
                add(delta, key + COUNT_BINS, sign)
        if distinct > 1:
            add(delta, model.distinct_base + attribute, sign)


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def emit_mention_move(model, world, document, mention, old, new, delta):
    """Features after the move less those before; the state is left as it is."""
    apart = model.features
    if model.setwise:
        _sum_predicates(model, world, document, mention, old, world.leaving)
        _sum_predicates(model, world, document, mention, new, world.joining)
    _emit_pairs(model, world, document, mention, old, 0, -1.0, delta)
    if model.two_sided:
        _emit_pairs(model, world, document, mention, new, apart, -1.0, delta)
    if model.setwise:
        _emit_entity(model, world, document, old, mention, 0, world.leaving, -1.0, delta)
        _emit_entity(model, world, document, new, mention, 0, world.leaving, -1.0, delta)
    if model.two_sided:
        _emit_pairs(model, world, document, mention, old, apart, 1.0, delta)
    _emit_pairs(model, world, document, mention, new, 0, 1.0, delta)
    if model.setwise:
        _emit_entity(model, world, document, old, mention, -1, world.leaving, 1.0, delta)
        _emit_entity(model, world, document, new, mention, 1, world.joining, 1.0, delta)


@njit(cache=True, nogil=True, _nrt=False)
def emit_clustering(model, world, document, sign, delta):
    """Adds ``sign`` times the features of the whole document; O(pairs)."""
    start, end = model.table[model.mention_start + document], model.table[model.mention_start + document + 1]
    for one in range(end - start):
        for other in range(one + 1, end - start):
            if world.states[start + one] == world.states[start + other]:
                _emit_pair(model, document, one, other, 0, sign, delta)
            elif model.two_sided:
                _emit_pair(model, document, one, other, model.features, sign, delta)
    if model.setwise:
        for place in range(world.lists[world.count]):
            _emit_entity(model, world, document, world.lists[world.active + place], 0, 0, world.leaving, sign, delta)


# ------------------------------------------------------------------------------------------------ proposal


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def propose_mention(model, world, document, generator, move):
    """A mention and one of the entities, its own one standing for a new entity (move: mention, old, new, 0).

    The log ratio is log K - log K', with K entities before and K' after.
    """
    mentions = model.table[model.mention_start + document + 1] - model.table[model.mention_start + document]
    before = world.lists[world.count]
    if mentions == 0:
        return False, 0.0
    mention = np.int64(next_uniform(generator) * mentions)
    new = world.lists[world.active + np.int64(next_uniform(generator) * before)]
    old = world.states[model.table[model.mention_start + document] + mention]
    after = before
    if world.lists[world.size + old] == 1:
        after -= 1
    if new == old:
        if world.lists[world.size + old] == 1:
            return False, 0.0
        new = world.lists[world.free + world.lists[world.count + 1] - 1]
        after += 1
    move[0], move[1], move[2] = mention, old, new
    if after == before:
        return True, 0.0
    return True, math.log(np.float64(before)) - math.log(np.float64(after))


# ----------------------------------------------------------------------------------------------- the state


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _unlink(world, mention, entity):
    other = world.lists[world.first + entity]
    if other == mention:
        world.lists[world.first + entity] = world.lists[world.following + mention]
    else:
        while world.lists[world.following + other] != mention:
            other = world.lists[world.following + other]
        world.lists[world.following + other] = world.lists[world.following + mention]
    world.lists[world.size + entity] -= 1


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _link(world, mention, entity):
    other = world.lists[world.first + entity]
    if other < 0 or other > mention:
        world.lists[world.following + mention] = other
        world.lists[world.first + entity] = mention
    else:
        while world.lists[world.following + other] >= 0 and world.lists[world.following + other] < mention:
            other = world.lists[world.following + other]
        world.lists[world.following + mention] = world.lists[world.following + other]
        world.lists[world.following + other] = mention
    world.lists[world.size + entity] += 1


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _count_near(model, world, document, mention, old, new):
    """Of the old entity (the mention left out) and of the new one: members, and those of the mention's truth."""
    start = model.table[model.mention_start + document]
    gold = model.table[model.gold + start + mention]
    (
        world.lists[world.near],
        world.lists[world.near + 1],
        world.lists[world.near + 2],
        world.lists[world.near + 3],
    ) = world.lists[world.size + old] - 1, 0, world.lists[world.size + new], 0
    other = world.lists[world.first + old]
    while other >= 0:
        world.lists[world.near + 1] += model.table[model.gold + start + other] == gold
        other = world.lists[world.following + other]
    world.lists[world.near + 1] -= 1
    other = world.lists[world.first + new]
    while other >= 0:
        world.lists[world.near + 3] += model.table[model.gold + start + other] == gold
        other = world.lists[world.following + other]


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _purity_change(world, old, new):
    """Change of the B-cubed precision, summed over mentions, from the counts in ``world.near``."""
    change = -world.lists[world.purity + old] / np.float64(world.lists[world.near] + 1)
    if world.lists[world.near] > 0:
        change += (world.lists[world.purity + old] - 2 * world.lists[world.near + 1] - 1) / np.float64(
            world.lists[world.near]
        )
    if world.lists[world.near + 2] > 0:
        change -= world.lists[world.purity + new] / np.float64(world.lists[world.near + 2])
    return change + (world.lists[world.purity + new] + 2 * world.lists[world.near + 3] + 1) / np.float64(
        world.lists[world.near + 2] + 1
    )


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _b_cubed(precision, recall, mentions):
    precision, recall = precision / mentions, recall / mentions
    return 2.0 * precision * recall / (precision + recall)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _pair_f(right, found, gold):
    return 1.0 if found + gold == 0 else 2.0 * right / (found + gold)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)
def mention_gain(model, world, document, mention, old, new):
    """How much the signal rises by the move."""
    if new == old:
        return 0.0
    _count_near(model, world, document, mention, old, new)
    if model.metric == PAIR_ACCURACY:
        return (
            world.lists[world.near]
            - 2 * world.lists[world.near + 1]
            + 2 * world.lists[world.near + 3]
            - world.lists[world.near + 2]
        ) / np.float64(max(world.lists[world.pairs], 1))
    if model.metric == PAIR_F:
        after = _pair_f(
            world.lists[world.pairs + 1] + world.lists[world.near + 3] - world.lists[world.near + 1],
            world.lists[world.pairs + 2] + world.lists[world.near + 2] - world.lists[world.near],
            world.lists[world.pairs + 3],
        )
        return after - _pair_f(world.lists[world.pairs + 1], world.lists[world.pairs + 2], world.lists[world.pairs + 3])
    mentions = np.float64(model.table[model.mention_start + document + 1] - model.table[model.mention_start + document])
    size = np.float64(
        world.lists[world.gold_size + model.table[model.gold + model.table[model.mention_start + document] + mention]]
    )
    precision = world.sums[0] + _purity_change(world, old, new)
    recall = world.sums[1] + 2 * (world.lists[world.near + 3] - world.lists[world.near + 1]) / size
    return _b_cubed(precision, recall, mentions) - _b_cubed(world.sums[0], world.sums[1], mentions)


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def _shift_signal(model, world, document, mention, old, new):
    _count_near(model, world, document, mention, old, new)
    world.lists[world.pairs + 1] += world.lists[world.near + 3] - world.lists[world.near + 1]
    world.lists[world.pairs + 2] += world.lists[world.near + 2] - world.lists[world.near]
    if model.metric == B_CUBED:
        size = np.float64(
            world.lists[
                world.gold_size + model.table[model.gold + model.table[model.mention_start + document] + mention]
            ]
        )
        world.sums[0] += _purity_change(world, old, new)
        world.sums[1] += 2 * (world.lists[world.near + 3] - world.lists[world.near + 1]) / size
        world.lists[world.purity + old] -= 2 * world.lists[world.near + 1] + 1
        world.lists[world.purity + new] += 2 * world.lists[world.near + 3] + 1


@njit(cache=True, nogil=True, _nrt=False)
def _shift_sums(model, world, document, mention, old, new):
    _sum_predicates(model, world, document, mention, old, world.leaving)
    _sum_predicates(model, world, document, mention, new, world.joining)
    for predicate in range(model.predicates):
        world.lists[world.totals + old * world.predicates + predicate] -= world.lists[world.leaving + predicate]
        world.lists[world.totals + new * world.predicates + predicate] += world.lists[world.joining + predicate]
    here = model.table[model.mention_start + document] + mention
    for attribute in range(model.attributes):
        value = model.small[model.attribute + here * model.attributes + attribute]
        if value >= 0:
            world.lists[world.values + old * world.kinds + model.table[model.value_start + attribute] + value] -= 1
            world.lists[world.values + new * world.kinds + model.table[model.value_start + attribute] + value] += 1


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def apply_mention(model, world, document, move):
    """Makes the move; ``move[3]`` remembers where an entity stood that it emptied, else -1."""
    mention, old, new = move[0], move[1], move[2]
    _shift_signal(model, world, document, mention, old, new)
    if model.setwise:
        _shift_sums(model, world, document, mention, old, new)
    if world.lists[world.size + new] == 0:
        world.lists[world.count + 1] -= 1
        world.lists[world.active + world.lists[world.count]] = new
        world.lists[world.place + new] = world.lists[world.count]
        world.lists[world.count] += 1
    move[3] = -1
    _unlink(world, mention, old)
    if world.lists[world.size + old] == 0:
        place, last = world.lists[world.place + old], world.lists[world.active + world.lists[world.count] - 1]
        world.lists[world.active + place] = last
        world.lists[world.place + last] = place
        world.lists[world.count] -= 1
        world.lists[world.free + world.lists[world.count + 1]] = old
        world.lists[world.count + 1] += 1
        move[3] = place
    _link(world, mention, new)
    world.states[model.table[model.mention_start + document] + mention] = new


@njit(cache=True, nogil=True, _nrt=False)
def undo_mention(model, world, document, move):
    """Takes the last move back, to the very same lists."""
    mention, old, new, place = move[0], move[1], move[2], move[3]
    _shift_signal(model, world, document, mention, new, old)
    if model.setwise:
        _shift_sums(model, world, document, mention, new, old)
    _unlink(world, mention, new)
    if place >= 0:
        world.lists[world.count + 1] -= 1
        moved = world.lists[world.active + place]
        world.lists[world.active + world.lists[world.count]] = moved
        world.lists[world.place + moved] = world.lists[world.count]
        world.lists[world.active + place] = old
        world.lists[world.place + old] = place
        world.lists[world.count] += 1
    if world.lists[world.size + new] == 0:
        world.lists[world.count] -= 1
        world.lists[world.free + world.lists[world.count + 1]] = new
        world.lists[world.count + 1] += 1
    _link(world, mention, old)
    world.states[model.table[model.mention_start + document] + mention] = old


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def cluster_gap(model, world, document):
    """The signal of the truth less that of the state."""
    if model.metric == PAIR_ACCURACY:
        return (
            world.lists[world.pairs + 2] + world.lists[world.pairs + 3] - 2 * world.lists[world.pairs + 1]
        ) / np.float64(max(world.lists[world.pairs], 1))
    if model.metric == PAIR_F:
        return 1.0 - _pair_f(world.lists[world.pairs + 1], world.lists[world.pairs + 2], world.lists[world.pairs + 3])
    mentions = model.table[model.mention_start + document + 1] - model.table[model.mention_start + document]
    return 0.0 if mentions == 0 else 1.0 - _b_cubed(world.sums[0], world.sums[1], np.float64(mentions))


@njit(cache=True, nogil=True, _nrt=False)
def _relabel(entity, world, mentions):
    """Numbers entities from 0 in order of appearance; how many there are."""
    for label in range(mentions):
        world.lists[world.place + label] = -1
    count = 0
    for mention in range(mentions):
        if world.lists[world.place + entity[mention]] < 0:
            world.lists[world.place + entity[mention]] = count
            count += 1
        entity[mention] = world.lists[world.place + entity[mention]]
    return count


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def begin_clusters(model, world, document, kind, generator):
    """Sets the start state of a document and its lists and sums; O(mentions), and O(pairs) within its entities."""
    start, end = model.table[model.mention_start + document], model.table[model.mention_start + document + 1]
    mentions, entity = end - start, world.states[start:end]
    for mention in range(mentions):
        if kind == TRUTH:
            entity[mention] = model.table[model.gold + start + mention]
        elif kind == SINGLETONS:
            entity[mention] = mention
        elif kind == RANDOM:
            entity[mention] = np.int64(next_uniform(generator) * mentions)
    world.lists[world.count] = _relabel(entity, world, mentions)
    world.lists[world.count + 1] = mentions - world.lists[world.count]
    for label in range(mentions):
        world.lists[world.active + label] = label
        world.lists[world.place + label] = label
        world.lists[world.free + label] = mentions - 1 - label
        (
            world.lists[world.size + label],
            world.lists[world.first + label],
            world.lists[world.purity + label],
            world.lists[world.gold_size + label],
        ) = 0, -1, 0, 0
        for predicate in range(world.predicates):
            world.lists[world.totals + label * world.predicates + predicate] = 0
        for value in range(world.kinds):
            world.lists[world.values + label * world.kinds + value] = 0
    for number in range(4):
        world.lists[world.pairs + number] = 0
    world.lists[world.pairs] = mentions * (mentions - 1) // 2
    world.sums[0], world.sums[1] = 0.0, 0.0
    for mention in range(mentions):
        world.lists[world.pairs + 3] += world.lists[world.gold_size + model.table[model.gold + start + mention]]
        world.lists[world.gold_size + model.table[model.gold + start + mention]] += 1
    for mention in range(mentions - 1, -1, -1):
        label = entity[mention]
        if model.setwise:
            _sum_predicates(model, world, document, mention, label, world.joining)
            for predicate in range(model.predicates):
                world.lists[world.totals + label * world.predicates + predicate] += world.lists[
                    world.joining + predicate
                ]
            for attribute in range(model.attributes):
                value = model.small[model.attribute + (start + mention) * model.attributes + attribute]
                if value >= 0:
                    world.lists[
                        world.values + label * world.kinds + model.table[model.value_start + attribute] + value
                    ] += 1
        world.lists[world.pairs + 2] += world.lists[world.size + label]
        _link(world, mention, label)
    _count_agreement(model, world, start, mentions)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _count_agreement(model, world, start, mentions):
    """Pairs together in both clusterings, and the sums of B-cubed; each mention looks at its own entity."""
    for mention in range(mentions):
        label, alike = world.states[start + mention], 0
        other = world.lists[world.first + label]
        while other >= 0:
            alike += model.table[model.gold + start + other] == model.table[model.gold + start + mention]
            other = world.lists[world.following + other]
        world.lists[world.pairs + 1] += alike - 1
        world.lists[world.purity + label] += alike
        world.sums[1] += alike / np.float64(world.lists[world.gold_size + model.table[model.gold + start + mention]])
    world.lists[world.pairs + 1] //= 2
    for place in range(world.lists[world.count]):
        label = world.lists[world.active + place]
        world.sums[0] += world.lists[world.purity + label] / np.float64(world.lists[world.size + label])
