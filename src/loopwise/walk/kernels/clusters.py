"""Compiled walks over clusterings: mentions that move between entities.

In: features of pairs of mentions in compressed rows, predicates of pairs and attributes of mentions to be summed over
each entity. Out: proposals and feature differences; :mod:`loopwise.walk.kernels.cluster_state` has the state and the
signal. Below the stages. A step costs what the two entities of a move cost, not what the document does.

Members of an entity are a list linked in ascending order, so that the order of additions depends on the state and not
on how the walk came there. Only the document being walked has lists and sums; of the others the entities are kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import inlined, leaf
from loopwise.compiled.prefetch import prefetch
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.walk.kernels.codes import (
    ALL,
    COUNT_BINS,
    MEAN,
    MEANS,
    MOST,
    NONE,
    PER_PREDICATE,
    PER_VALUE,
    SOME,
)
from loopwise.walk.kernels.delta import add

_MEANS = np.array(MEANS)
LINE = 16  # int32 numbers of a cache line


class ClusterArrays(NamedTuple):
    """Documents of mentions. Integers lie in ``table`` and ``small``; a field says where its part begins.

    Pair (i, j), i < j, of M mentions is number i (2 M - i - 1) / 2 + j - i - 1. What is known of it stands together, in
    a record: the number of its features, the features, its predicates; pairs alike share one. Links have records too,
    without predicates: those of the pairs in order, then one a mention, for the link of an entity's first member.
    """

    table: np.ndarray  # int64: the first part of the fields
    small: np.ndarray  # int32: the second
    value: np.ndarray  # float64 [records], of each feature at its place there; or [0] where all are 1
    mention_start: int  # [documents + 1]
    pair_start: int  # [documents + 1]
    link_start: int  # [documents + 1]
    gold: int  # [mentions], numbered from 0 in each document
    predicate_scale: int  # [predicates]
    value_start: int  # [attributes + 1], the values of each attribute
    pair_record: int  # [pairs]: where its record begins, counted from the first
    link_record: int  # [pairs + mentions of a document, with links]
    records: int
    attribute: int  # [mentions, attributes], -1 where unknown
    features: int  # weights of pairs in one entity; those of pairs apart follow, if two-sided
    far: bool  # whether records are too many for a near cache, so that fetching them ahead pays
    two_sided: bool
    links: bool  # whether links have weights
    link_base: int
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
    active: int  # [largest document]: the entities that are not empty
    free: int  # [largest document]: a stack of the empty ones
    count: int  # [2]: how many are active, how many free
    row: int  # numbers of an entity, which stand together: [largest document, row], in it
    first: int  # its first member, -1 where empty
    size: int
    place: int  # where it stands in `active`
    purity: int  # sum of squared numbers of each true entity's mentions
    totals: int  # [predicates], sums over its pairs
    values: int  # [kinds], how many members have a value
    leaving: int  # [predicates], sums over the pairs of a mention with its entity
    joining: int  # [predicates], with the entity it would join
    gold_size: int  # [largest document]: mentions of each entity of the truth
    pairs: int  # [4]: all, in one entity in both, here, in the truth
    block: int  # [1 + 4 largest document]: how many mentions a block moves, and the moves (blocks.py)
    near: int  # [4]: others in the old entity, those of the same truth, in the new one, likewise
    predicates: int  # how many
    kinds: int  # values of all attributes


@inlined
def _pair(model, document, one, other):
    mentions = model.table[model.mention_start + document + 1] - model.table[model.mention_start + document]
    low, high = min(one, other), max(one, other)
    return model.table[model.pair_start + document] + low * (2 * mentions - low - 1) // 2 + high - low - 1


@inlined
def _emit_record(model, record, offset, sign, delta):
    """The features of the record that begins at ``record``."""
    weighted, first = len(model.value) > 0, model.records + record + 1
    for place in range(first, first + model.small[first - 1]):
        key = offset + np.int64(model.small[place])
        add(delta, key, sign * model.value[place - model.records] if weighted else sign)


@inlined
def _emit_pair(model, document, one, other, offset, sign, delta):
    _emit_record(model, model.small[model.pair_record + _pair(model, document, one, other)], offset, sign, delta)


@inlined
def _emit_pairs(model, world, document, mention, entity, offset, sign, delta):
    """The features of the pairs of ``mention`` with the members of ``entity``."""
    other = world.lists[world.first + entity * world.row]
    while other >= 0:
        if other != mention:
            _emit_pair(model, document, mention, other, offset, sign, delta)
        other = world.lists[world.following + other]


@leaf
def sum_predicates(model, world, document, mention, entity, sums):
    for predicate in range(model.predicates):
        world.lists[sums + predicate] = 0
    other = world.lists[world.first + entity * world.row]
    while other >= 0:
        if other != mention:
            record = model.records + model.small[model.pair_record + _pair(model, document, mention, other)]
            first = record + 1 + model.small[record]
            for predicate in range(model.predicates):
                world.lists[sums + predicate] += model.small[first + predicate]
        other = world.lists[world.following + other]


# ---------------------------------------------------------------- links of members with the one before them


@leaf
def _emit_link(model, document, before, mention, sign, delta):
    """The link of a member with the one ``before`` it, -1: it is the first; nothing where there is no member."""
    if mention < 0:
        return
    mentions = model.table[model.mention_start + document + 1] - model.table[model.mention_start + document]
    place = mentions * (mentions - 1) // 2 + mention
    if before >= 0:
        place = before * (2 * mentions - before - 1) // 2 + mention - before - 1
    record = model.small[model.link_record + model.table[model.link_start + document] + place]
    _emit_record(model, record, model.link_base, sign, delta)


@leaf
def _emit_links(model, world, document, mention, entity, within, sign, delta):
    """The links about the place of ``mention`` in an entity: with it (``within``), or of its neighbours alone."""
    before, after = -1, world.lists[world.first + entity * world.row]
    while after >= 0 and after < mention:
        before, after = after, world.lists[world.following + after]
    if after == mention:
        after = world.lists[world.following + after]
    if within:
        _emit_link(model, document, before, mention, sign, delta)
        before = mention
    _emit_link(model, document, before, after, sign, delta)


# ------------------------------------------------------------------------------------- features of entities


@leaf
def size_bin(size):
    """1, 2, 3, 4, 5 to 8, 9 to 16, more."""
    if size <= 4:
        return size - 1
    return 4 if size <= 8 else 5 if size <= 16 else 6


@leaf
def count_bin(count):
    """0, 1, 2, 3 to 5, more."""
    if count <= 2:
        return count
    return 3 if count <= 5 else 4


@leaf
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


@leaf
def _emit_entity(model, world, document, entity, mention, shift, sums, sign, delta):
    """The features of an entity: as it is (``shift`` 0), with ``mention`` added (1) or taken away (-1)."""
    size = world.lists[world.size + entity * world.row] + shift
    if size <= 0:
        return
    add(delta, model.size_base + size_bin(size), sign)
    pairs = size * (size - 1) // 2
    if pairs > 0:
        for predicate in range(model.predicates):
            total = world.lists[world.totals + entity * world.row + predicate] + shift * world.lists[sums + predicate]
            key = model.predicate_base + PER_PREDICATE * predicate
            _emit_predicate(key, total, pairs * model.table[model.predicate_scale + predicate], sign, delta)
    here = model.table[model.mention_start + document] + mention
    for attribute in range(model.attributes):
        distinct = 0
        first = model.table[model.value_start + attribute]
        for value in range(first, model.table[model.value_start + attribute + 1]):
            count = world.lists[world.values + entity * world.row + value]
            if shift != 0 and model.small[model.attribute + here * model.attributes + attribute] == value - first:
                count += shift
            distinct += count > 0
            key = model.value_base + PER_VALUE * value
            add(delta, key + count_bin(count), sign)
            if count == size:
                add(delta, key + COUNT_BINS, sign)
        if distinct > 1:
            add(delta, model.distinct_base + attribute, sign)


@inlined
def emit_mention_move(model, world, document, mention, old, new, delta):
    """Features after the move less those before; the state is left as it is."""
    apart = model.features
    if model.setwise:
        sum_predicates(model, world, document, mention, old, world.leaving)
        sum_predicates(model, world, document, mention, new, world.joining)
    _emit_pairs(model, world, document, mention, old, 0, -1.0, delta)
    if model.two_sided:
        _emit_pairs(model, world, document, mention, new, apart, -1.0, delta)
    if model.links:
        _emit_links(model, world, document, mention, old, True, -1.0, delta)
        _emit_links(model, world, document, mention, new, False, -1.0, delta)
    if model.setwise:
        _emit_entity(model, world, document, old, mention, 0, world.leaving, -1.0, delta)
        _emit_entity(model, world, document, new, mention, 0, world.leaving, -1.0, delta)
    if model.two_sided:
        _emit_pairs(model, world, document, mention, old, apart, 1.0, delta)
    _emit_pairs(model, world, document, mention, new, 0, 1.0, delta)
    if model.links:
        _emit_links(model, world, document, mention, old, False, 1.0, delta)
        _emit_links(model, world, document, mention, new, True, 1.0, delta)
    if model.setwise:
        _emit_entity(model, world, document, old, mention, -1, world.leaving, 1.0, delta)
        _emit_entity(model, world, document, new, mention, 1, world.joining, 1.0, delta)


@leaf
def emit_clustering(model, world, document, sign, delta):
    """Adds ``sign`` times the features of the whole document; O(pairs)."""
    start, end = model.table[model.mention_start + document], model.table[model.mention_start + document + 1]
    for one in range(end - start):
        for other in range(one + 1, end - start):
            if world.states[start + one] == world.states[start + other]:
                _emit_pair(model, document, one, other, 0, sign, delta)
            elif model.two_sided:
                _emit_pair(model, document, one, other, model.features, sign, delta)
    if model.links:
        for place in range(world.lists[world.count]):
            before, other = -1, world.lists[world.first + world.lists[world.active + place] * world.row]
            while other >= 0:
                _emit_link(model, document, before, other, sign, delta)
                before, other = other, world.lists[world.following + other]
    if model.setwise:
        for place in range(world.lists[world.count]):
            _emit_entity(model, world, document, world.lists[world.active + place], 0, 0, world.leaving, sign, delta)


# ------------------------------------------------------------------------------------------------ proposal


@inlined
def _fetch_records(model, world, document, mention, entity):
    """Has the records of a mention with the members of an entity fetched: two lines of each, all at a time."""
    other = world.lists[world.first + entity * world.row]
    while other >= 0:
        if other != mention:
            record = model.records + model.small[model.pair_record + _pair(model, document, mention, other)]
            prefetch(model.small, record)
            prefetch(model.small, record + LINE)
        other = world.lists[world.following + other]


@inlined
def _fetch_places(model, world, document, mention, entity):
    """Has fetched where these records begin."""
    other = world.lists[world.first + entity * world.row]
    while other >= 0:
        prefetch(model.small, model.pair_record + _pair(model, document, mention, other))
        other = world.lists[world.following + other]


@inlined
def _fetch(model, world, document, mention, old, new):
    """Has fetched what a move will look at: a step would ask for one after the other, and wait each time."""
    _fetch_places(model, world, document, mention, old)
    _fetch_places(model, world, document, mention, new)
    _fetch_records(model, world, document, mention, old)
    _fetch_records(model, world, document, mention, new)


@inlined
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
    if world.lists[world.size + old * world.row] == 1:
        after -= 1
    if new == old:
        if world.lists[world.size + old * world.row] == 1:
            return False, 0.0
        new = world.lists[world.free + world.lists[world.count + 1] - 1]
        after += 1
    move[0], move[1], move[2] = mention, old, new
    if model.far:
        _fetch(model, world, document, mention, old, new)
    if after == before:
        return True, 0.0
    return True, math.log(np.float64(before)) - math.log(np.float64(after))
