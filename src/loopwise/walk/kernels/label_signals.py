"""The signals of compiled walks over labellings: Hamming, F1 of labels and of entities, by counts that follow the walk.

In: changes of one variable (:mod:`loopwise.walk.kernels.labels`). Out: what the signal gains, and the state after them.
Below the stages. A change costs O(1), for entities what the tokens around it cost.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import inlined, leaf
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.walk.kernels.codes import ENTITY, HAMMING, KEEP, RANDOM


@inlined
def _f_measure(agreed, decided, gold, beta):
    size = beta * beta * gold + decided
    return 1.0 if size <= 0.0 else (1.0 + beta * beta) * agreed / size


@inlined
def _label(model, variable, value):
    label = model.table[model.label_of + value]
    return label + variable * model.label_step if label >= 0 else -1


@leaf
def _tag(values, start, place, variable, value):
    return value if place == variable else values[start + place]


@leaf
def _entities(model, values, offset, start, begin, end, variable, value):
    """Entities within [begin, end) that are right, and all of them, were the variable's tag ``value``.

    The tags are ``values`` from ``offset`` on, the document's truth lies from ``start`` on.
    """
    place, right, found = begin, 0, 0
    while place < end:
        tag = _tag(values, offset, place, variable, value)
        kind = model.table[model.entity_type + tag]
        if kind < 0:
            place += 1
            continue
        first = place
        place += 1
        while place < end:
            after = _tag(values, offset, place, variable, value)
            if not model.table[model.continues + tag * model.width + after]:
                break
            tag = after
            place += 1
        found += 1
        right += (
            model.table[model.gold_end + start + first] == place
            and model.table[model.entity_type + model.table[model.gold + start + first]] == kind
        )
    return right, found


@leaf
def _window(model, values, document, variable):
    """The stretch of tokens whose entities can change with the tag of ``variable``."""
    start, end = model.table[model.document_start + document], model.table[model.document_start + document + 1]
    begin = variable
    if variable > 0 and model.table[model.entity_type + values[start + variable - 1]] >= 0:
        begin = variable - 1
        while (
            begin > 0 and model.table[model.continues + values[start + begin - 1] * model.width + values[start + begin]]
        ):
            begin -= 1
    stop = min(variable + 2, end - start)
    while (
        stop < end - start
        and model.table[model.continues + values[start + stop - 1] * model.width + values[start + stop]]
    ):
        stop += 1
    return begin, stop


@leaf
def _entity_change(model, world, document, variable, old, new):
    """By how much the numbers of right and of found entities rise."""
    begin, stop = _window(model, world.states, document, variable)
    start = model.table[model.document_start + document]
    right_before, found_before = _entities(model, world.states, start, start, begin, stop, variable, old)
    right, found = _entities(model, world.states, start, start, begin, stop, variable, new)
    return right - right_before, found - found_before


@inlined
def label_gain(model, world, document, variable, old, new):
    """How much the signal rises if the variable goes from ``old`` to ``new``."""
    gold = model.table[model.gold + model.table[model.document_start + document] + variable]
    if gold < 0 or old == new:
        return 0.0
    if model.metric == HAMMING:
        return ((new == gold) * 1.0 - (old == gold) * 1.0) / model.weight[document]
    counts, beta = world.counts, model.beta
    if model.metric == ENTITY:
        right, found = _entity_change(model, world, document, variable, old, new)
        before = _f_measure(counts[0], counts[model.labels], counts[2 * model.labels], beta)
        return _f_measure(counts[0] + right, counts[model.labels] + found, counts[2 * model.labels], beta) - before
    source, target = _label(model, variable, old), _label(model, variable, new)
    total = 0.0
    if source >= 0:
        agreed, decided = counts[source] - (old == gold), counts[model.labels + source] - 1
        if source == target:
            agreed, decided = agreed + (new == gold), decided + 1
        total += _f_measure(agreed, decided, counts[2 * model.labels + source], beta)
        total -= _f_measure(counts[source], counts[model.labels + source], counts[2 * model.labels + source], beta)
    if target >= 0 and target != source:
        agreed, decided = counts[target] + (new == gold), counts[model.labels + target] + 1
        total += _f_measure(agreed, decided, counts[2 * model.labels + target], beta)
        total -= _f_measure(counts[target], counts[model.labels + target], counts[2 * model.labels + target], beta)
    return total / model.labels


@inlined
def apply_label(model, world, document, variable, old, new):
    """Makes the change; the signal's counts follow."""
    place = model.table[model.document_start + document] + variable
    gold, counts = model.table[model.gold + place], world.counts
    if gold >= 0:
        if model.metric == HAMMING:
            counts[0] += (new == gold) * 1 - (old == gold) * 1
        elif model.metric == ENTITY:
            right, found = _entity_change(model, world, document, variable, old, new)
            counts[0] += right
            counts[model.labels] += found
        else:
            source, target = _label(model, variable, old), _label(model, variable, new)
            if source >= 0:
                counts[source] -= old == gold
                counts[model.labels + source] -= 1
            if target >= 0:
                counts[target] += new == gold
                counts[model.labels + target] += 1
    world.states[place] = new


@leaf
def label_gap(model, world, document):
    """The signal of the truth less that of the state."""
    counts = world.counts
    if model.metric == HAMMING:
        return (counts[2 * model.labels] - counts[0]) / model.weight[document]
    total = 0.0
    for label in range(model.labels):
        total += _f_measure(counts[label], counts[model.labels + label], counts[2 * model.labels + label], model.beta)
    return 1.0 - total / model.labels


@leaf
def begin_labels(model, world, document, kind, generator):
    """Sets the start state of a document and counts what the signal needs; O(document)."""
    start, end = model.table[model.document_start + document], model.table[model.document_start + document + 1]
    first = model.table[model.structure_variable + model.table[model.document_structure + document]]
    values, counts = world.states, world.counts
    if kind != KEEP:
        for place in range(start, end):
            values[place] = max(model.table[model.gold + place], 0)  # -1: not scored, and no start state either
    if kind == RANDOM:
        for place in range(model.table[model.free_start + document], model.table[model.free_start + document + 1]):
            variable = model.table[model.free + place]
            values[start + variable] = np.int64(
                next_uniform(generator) * model.table[model.cardinality + first + variable]
            )
    for place in range(len(counts)):
        counts[place] = 0
    if model.metric == ENTITY:
        counts[2 * model.labels] = _entities(model, model.table, model.gold + start, start, 0, end - start, -1, 0)[1]
        counts[0], counts[model.labels] = _entities(model, values, start, start, 0, end - start, -1, 0)
        return
    for place in range(start, end):
        gold, value, variable = model.table[model.gold + place], values[place], place - start
        if gold < 0:
            continue
        if model.metric == HAMMING:
            counts[0] += value == gold
            counts[2 * model.labels] += 1
            continue
        label = _label(model, variable, value)
        if label >= 0:
            counts[label] += value == gold
            counts[model.labels + label] += 1
        label = _label(model, variable, gold)
        if label >= 0:
            counts[2 * model.labels + label] += 1
