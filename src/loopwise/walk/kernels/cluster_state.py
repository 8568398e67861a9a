"""The state of compiled walks over clusterings: lists of members, sums over entities, and the signal's counts.

In: moves of mentions (:mod:`loopwise.walk.kernels.clusters`). Out: the state after them and back, gains of the signal.
Below the stages. A move costs what its two entities cost.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import inlined, leaf
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.walk.kernels.clusters import sum_predicates
from loopwise.walk.kernels.codes import B_CUBED, PAIR_ACCURACY, PAIR_F, RANDOM, SINGLETONS, TRUTH


@inlined
def _unlink(world, mention, entity):
    other = world.lists[world.first + entity * world.row]
    if other == mention:
        world.lists[world.first + entity * world.row] = world.lists[world.following + mention]
    else:
        while world.lists[world.following + other] != mention:
            other = world.lists[world.following + other]
        world.lists[world.following + other] = world.lists[world.following + mention]
    world.lists[world.size + entity * world.row] -= 1


@inlined
def _link(world, mention, entity):
    other = world.lists[world.first + entity * world.row]
    if other < 0 or other > mention:
        world.lists[world.following + mention] = other
        world.lists[world.first + entity * world.row] = mention
    else:
        while world.lists[world.following + other] >= 0 and world.lists[world.following + other] < mention:
            other = world.lists[world.following + other]
        world.lists[world.following + mention] = world.lists[world.following + other]
        world.lists[world.following + other] = mention
    world.lists[world.size + entity * world.row] += 1


@inlined
def _count_near(model, world, document, mention, old, new):
    """Of the old entity (the mention left out) and of the new one: members, and those of the mention's truth."""
    start = model.table[model.mention_start + document]
    gold = model.table[model.gold + start + mention]
    (
        world.lists[world.near],
        world.lists[world.near + 1],
        world.lists[world.near + 2],
        world.lists[world.near + 3],
    ) = world.lists[world.size + old * world.row] - 1, 0, world.lists[world.size + new * world.row], 0
    other = world.lists[world.first + old * world.row]
    while other >= 0:
        world.lists[world.near + 1] += model.table[model.gold + start + other] == gold
        other = world.lists[world.following + other]
    world.lists[world.near + 1] -= 1
    other = world.lists[world.first + new * world.row]
    while other >= 0:
        world.lists[world.near + 3] += model.table[model.gold + start + other] == gold
        other = world.lists[world.following + other]


@leaf
def _purity_change(world, old, new):
    """Change of the B-cubed precision, summed over mentions, from the counts in ``world.near``."""
    change = -world.lists[world.purity + old * world.row] / np.float64(world.lists[world.near] + 1)
    if world.lists[world.near] > 0:
        change += (world.lists[world.purity + old * world.row] - 2 * world.lists[world.near + 1] - 1) / np.float64(
            world.lists[world.near]
        )
    if world.lists[world.near + 2] > 0:
        change -= world.lists[world.purity + new * world.row] / np.float64(world.lists[world.near + 2])
    return change + (world.lists[world.purity + new * world.row] + 2 * world.lists[world.near + 3] + 1) / np.float64(
        world.lists[world.near + 2] + 1
    )


@leaf
def _b_cubed(precision, recall, mentions):
    precision, recall = precision / mentions, recall / mentions
    return 2.0 * precision * recall / (precision + recall)


@leaf
def _pair_f(right, found, gold):
    return 1.0 if found + gold == 0 else 2.0 * right / (found + gold)


@inlined
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


@inlined
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
        world.lists[world.purity + old * world.row] -= 2 * world.lists[world.near + 1] + 1
        world.lists[world.purity + new * world.row] += 2 * world.lists[world.near + 3] + 1


@leaf
def _shift_sums(model, world, document, mention, old, new):
    sum_predicates(model, world, document, mention, old, world.leaving)
    sum_predicates(model, world, document, mention, new, world.joining)
    for predicate in range(model.predicates):
        world.lists[world.totals + old * world.row + predicate] -= world.lists[world.leaving + predicate]
        world.lists[world.totals + new * world.row + predicate] += world.lists[world.joining + predicate]
    here = model.table[model.mention_start + document] + mention
    for attribute in range(model.attributes):
        value = model.small[model.attribute + here * model.attributes + attribute]
        if value >= 0:
            world.lists[world.values + old * world.row + model.table[model.value_start + attribute] + value] -= 1
            world.lists[world.values + new * world.row + model.table[model.value_start + attribute] + value] += 1


@inlined
def apply_mention(model, world, document, move):
    """Makes the move; ``move[3]`` remembers where an entity stood that it emptied, else -1."""
    mention, old, new = move[0], move[1], move[2]
    _shift_signal(model, world, document, mention, old, new)
    if model.setwise:
        _shift_sums(model, world, document, mention, old, new)
    if world.lists[world.size + new * world.row] == 0:
        world.lists[world.count + 1] -= 1
        world.lists[world.active + world.lists[world.count]] = new
        world.lists[world.place + new * world.row] = world.lists[world.count]
        world.lists[world.count] += 1
    move[3] = -1
    _unlink(world, mention, old)
    if world.lists[world.size + old * world.row] == 0:
        place, last = (
            world.lists[world.place + old * world.row],
            world.lists[world.active + world.lists[world.count] - 1],
        )
        world.lists[world.active + place] = last
        world.lists[world.place + last * world.row] = place
        world.lists[world.count] -= 1
        world.lists[world.free + world.lists[world.count + 1]] = old
        world.lists[world.count + 1] += 1
        move[3] = place
    _link(world, mention, new)
    world.states[model.table[model.mention_start + document] + mention] = new


@leaf
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
        world.lists[world.place + moved * world.row] = world.lists[world.count]
        world.lists[world.active + place] = old
        world.lists[world.place + old * world.row] = place
        world.lists[world.count] += 1
    if world.lists[world.size + new * world.row] == 0:
        world.lists[world.count] -= 1
        world.lists[world.free + world.lists[world.count + 1]] = new
        world.lists[world.count + 1] += 1
    _link(world, mention, old)
    world.states[model.table[model.mention_start + document] + mention] = old


@leaf
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


@leaf
def _relabel(entity, world, mentions):
    """Numbers entities from 0 in order of appearance; how many there are."""
    for label in range(mentions):
        world.lists[world.place + label * world.row] = -1
    count = 0
    for mention in range(mentions):
        if world.lists[world.place + entity[mention] * world.row] < 0:
            world.lists[world.place + entity[mention] * world.row] = count
            count += 1
        entity[mention] = world.lists[world.place + entity[mention] * world.row]
    return count


@leaf
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
        world.lists[world.place + label * world.row] = label
        world.lists[world.free + label] = mentions - 1 - label
        (
            world.lists[world.size + label * world.row],
            world.lists[world.first + label * world.row],
            world.lists[world.purity + label * world.row],
            world.lists[world.gold_size + label],
        ) = 0, -1, 0, 0
        for predicate in range(world.predicates):
            world.lists[world.totals + label * world.row + predicate] = 0
        for value in range(world.kinds):
            world.lists[world.values + label * world.row + value] = 0
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
            sum_predicates(model, world, document, mention, label, world.joining)
            for predicate in range(model.predicates):
                world.lists[world.totals + label * world.row + predicate] += world.lists[world.joining + predicate]
            for attribute in range(model.attributes):
                value = model.small[model.attribute + (start + mention) * model.attributes + attribute]
                if value >= 0:
                    world.lists[
                        world.values + label * world.row + model.table[model.value_start + attribute] + value
                    ] += 1
        world.lists[world.pairs + 2] += world.lists[world.size + label * world.row]
        _link(world, mention, label)
    _count_agreement(model, world, start, mentions)


@leaf
def _count_agreement(model, world, start, mentions):
    """Pairs together in both clusterings, and the sums of B-cubed; each mention looks at its own entity."""
    for mention in range(mentions):
        label, alike = world.states[start + mention], 0
        other = world.lists[world.first + label * world.row]
        while other >= 0:
            alike += model.table[model.gold + start + other] == model.table[model.gold + start + mention]
            other = world.lists[world.following + other]
        world.lists[world.pairs + 1] += alike - 1
        world.lists[world.purity + label * world.row] += alike
        world.sums[1] += alike / np.float64(world.lists[world.gold_size + model.table[model.gold + start + mention]])
    world.lists[world.pairs + 1] //= 2
    for place in range(world.lists[world.count]):
        label = world.lists[world.active + place]
        world.sums[0] += world.lists[world.purity + label * world.row] / np.float64(
            world.lists[world.size + label * world.row]
        )
