"""Compiled walks over sets of binary labels, all pairs of which interact.

In: inputs in compressed rows, right labels, a rule. Out: weights. Below the stages. The same walk as
:mod:`loopwise.walk.kernels.loop` takes over the same model, up to rounding, but a step costs O(labels) instead of
O(features): within a visit all updates of a label's weights go along one input x, so that the walk keeps how far each
went, and x times the weights, and adds the sums to the weights when it leaves. Weights lie as ``[label, feature,
value]``, then ``[pair, cell]``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import inlined, kernel, leaf
from loopwise.inference.gibbs.kernels.gibbs import next_uniform, seed_stream
from loopwise.walk.kernels.codes import (
    ACCEPTED,
    ACTIVE,
    ALL_VALUES,
    DECAYING,
    FORCED,
    KEEP,
    MET,
    MOVED,
    NO_TRUTH,
    RANDOM,
    RANKED,
    STEPS,
    TRUTH_MARGIN,
    UNIFORM,
    UNIT,
    UPDATES,
    VIOLATED,
)


class LabelRows(NamedTuple):
    """Documents: one row of features and one of labels each."""

    start: np.ndarray  # int64 [documents + 1]
    index: np.ndarray  # int32 [entries]
    value: np.ndarray  # float64 [entries]
    gold: np.ndarray  # int64 [documents, labels], -1 not scored
    weight: np.ndarray  # float64 [documents]: what counts of right labels are divided by
    pair: np.ndarray  # int64 [labels, labels]: first weight of the pair
    features: int
    proposal: int
    scan: bool


class LabelMemory(NamedTuple):
    """What a walk keeps."""

    states: np.ndarray  # int64 [documents, labels]
    single: np.ndarray  # float64 [labels, 2]: input times weights
    shift: np.ndarray  # float64 [labels]: how far the weights of value 1 go along the input, and those of 0 back
    shift_sum: np.ndarray  # float64 [labels]: the same for the sums of the average
    scores: np.ndarray  # float64 [2]
    generator: np.ndarray  # uint64 [4]
    move: np.ndarray  # int64 [3]: label, old, new
    input: np.ndarray  # float64 [2]: squared length and number of non-zero entries of the input


@inlined
def _cell(pair, label, value, other, other_value):
    """The weight of a pair's cell, whichever of the two comes first."""
    return pair[label, other] + (2 * value + other_value if label < other else value + 2 * other_value)


# ------------------------------------------------------------------------------------------ into and out of a visit


@leaf
def _enter(rows, memory, weights, document, kind):
    """Start state, scores of the input, no shifts."""
    state, gold = memory.states[document], rows.gold[document]
    first, end = rows.start[document], rows.start[document + 1]
    length, entries = 0.0, 0
    for place in range(first, end):
        length += rows.value[place] * rows.value[place]
        entries += rows.value[place] != 0.0
    memory.input[0], memory.input[1] = length, entries
    for label in range(len(gold)):
        if kind != KEEP:
            state[label] = max(gold[label], 0)
        base = label * rows.features
        low, high = 0.0, 0.0
        for place in range(first, end):
            at = 2 * (base + rows.index[place])
            low += weights[at] * rows.value[place]
            high += weights[at + 1] * rows.value[place]
        memory.single[label, 0], memory.single[label, 1] = low, high
        memory.shift[label] = 0.0
        memory.shift_sum[label] = 0.0
    if kind == RANDOM:
        for label in range(len(gold)):
            state[label] = np.int64(next_uniform(memory.generator) * 2)


@leaf
def _leave(rows, memory, learning, document):
    """Adds what was learnt along the input to the weights."""
    first, end = rows.start[document], rows.start[document + 1]
    for label in range(rows.gold.shape[1]):
        shift, total = memory.shift[label], memory.shift_sum[label]
        if shift == 0.0 and total == 0.0:
            continue
        base = label * rows.features
        for place in range(first, end):
            at, value = 2 * (base + rows.index[place]), rows.value[place]
            learning.weights[at] -= shift * value
            learning.weights[at + 1] += shift * value
            learning.sums[at] -= total * value
            learning.sums[at + 1] += total * value


# -------------------------------------------------------------------------------------------------------- updates


@inlined
def _eta(rule, time, shortfall, size):
    if rule.step == UNIT:
        return rule.rate
    if rule.step == DECAYING:
        return rule.rate / math.sqrt(np.float64(time))
    return min(rule.cap, shortfall / size)


@inlined
def _shift_label(memory, label, value, change, lag):
    """The weights of ``value`` go ``change`` along the input, those of the other value back."""
    signed = change if value == 1 else -change
    memory.shift[label] += signed
    memory.shift_sum[label] += lag * signed
    memory.single[label, 1] += signed * memory.input[0]
    memory.single[label, 0] -= signed * memory.input[0]


@inlined
def _shift_pair(learning, better, worse, change, lag):
    learning.weights[better] += change
    learning.sums[better] += lag * change
    learning.weights[worse] -= change
    learning.sums[worse] -= lag * change


@inlined
def _rank(rows, memory, rule, learning, state, move, gain, score, tally):
    """The atomic update for one label's ``move`` from a value to another; the score of the change after it."""
    label, old, new = move
    if abs(gain) <= rule.tolerance:
        return score
    tally[RANKED] += 1
    sign = 1.0 if gain > 0.0 else -1.0
    margin = rule.margin_scale * abs(gain) + rule.margin_constant
    if not margin - sign * score > MET * margin:
        return score
    tally[VIOLATED] += 1
    others = len(state) - 1
    size = 2.0 * memory.input[0] + 2.0 * others
    if size == 0.0:
        return score
    tally[UPDATES] += 1
    tally[ACTIVE] += 2 * (np.int64(memory.input[1]) + others)
    lag = np.float64(max(learning.clock[0] - 1 - learning.clock[1], 0))
    change = sign * _eta(rule, learning.clock[0], margin - sign * score, size)
    _shift_label(memory, label, new, change, lag)
    for other in range(len(state)):
        if other != label:
            better = _cell(rows.pair, label, new, other, state[other])
            _shift_pair(learning, better, _cell(rows.pair, label, old, other, state[other]), change, lag)
    return score + change * size


@inlined
def _towards_truth(rows, memory, weights, state, gold):
    """Of the features of the truth less those of the state: score, squared length, number that are not 0; and how
    many labels are wrong."""
    score, wrong, pairs = 0.0, 0, 0
    for label in range(len(state)):
        if state[label] == gold[label]:
            continue
        wrong += 1
        score += memory.single[label, gold[label]] - memory.single[label, state[label]]
        for other in range(len(state)):
            if other != label and (other > label or state[other] == gold[other]):
                pairs += 1
                score += weights[_cell(rows.pair, label, gold[label], other, gold[other])]
                score -= weights[_cell(rows.pair, label, state[label], other, state[other])]
    size = 2.0 * wrong * memory.input[0] + 2.0 * pairs
    return score, size, 2 * (wrong * np.int64(memory.input[1]) + pairs), wrong


@inlined
def _learn_from_truth(rows, memory, rule, learning, document, tally):
    """An update towards the truth, where its margin is not met or always."""
    state, gold = memory.states[document], rows.gold[document]
    score, size, active, wrong = _towards_truth(rows, memory, learning.weights, state, gold)
    shortfall = 0.0
    if rule.truth == TRUTH_MARGIN:
        gap = wrong / rows.weight[document]
        if gap <= rule.tolerance:
            return
        tally[RANKED] += 1
        margin = rule.margin_scale * gap + rule.margin_constant
        shortfall = margin - score
        if not shortfall > MET * margin:
            return
        tally[VIOLATED] += 1
    if size == 0.0:
        return
    tally[UPDATES] += 1
    tally[ACTIVE] += active
    lag = np.float64(max(learning.clock[0] - 1 - learning.clock[1], 0))
    change = _eta(rule, learning.clock[0], shortfall, size)
    for label in range(len(state)):
        if state[label] == gold[label]:
            continue
        _shift_label(memory, label, gold[label], change, lag)
        for other in range(len(state)):
            if other != label and (other > label or state[other] == gold[other]):
                better = _cell(rows.pair, label, gold[label], other, gold[other])
                _shift_pair(learning, better, _cell(rows.pair, label, state[label], other, state[other]), change, lag)


# ------------------------------------------------------------------------------------------------------- the walk


@inlined
def _gain(gold, weight, old, new):
    return 0.0 if gold < 0 else ((new == gold) * 1.0 - (old == gold) * 1.0) / weight


@inlined
def _condition(rows, memory, weights, state, label):
    """The scores of both values of a label given the rest."""
    low, high = memory.single[label, 0], memory.single[label, 1]
    for other in range(len(state)):
        if other != label:
            low += weights[_cell(rows.pair, label, 0, other, state[other])]
            high += weights[_cell(rows.pair, label, 1, other, state[other])]
    memory.scores[0], memory.scores[1] = low, high


@inlined
def _draw(low, high, temperature, generator):
    """0 or 1 by probability."""
    top = max(low, high)
    share = math.exp((low - top) / temperature)
    total = share + math.exp((high - top) / temperature)
    left = next_uniform(generator) * total
    return 0 if share > 0.0 and (left - share < 0.0 or total == share) else 1


@inlined
def _step(rows, memory, rule, learning, document, step, tally):
    """Proposal, atomic update, acceptance; what the signal would gain, and whether the label changed."""
    state, generator, scores = memory.states[document], memory.generator, memory.scores
    labels = len(state)
    learning.clock[0] += 1
    tally[STEPS] += 1
    label = step % labels if rows.scan else np.int64(next_uniform(generator) * labels)
    old, gold, weight = state[label], rows.gold[document, label], rows.weight[document]
    _condition(rows, memory, learning.weights, state, label)
    metropolis = rows.proposal == UNIFORM or rows.proposal == FORCED
    if metropolis:
        next_uniform(generator)  # the draw among the one other value
        new = 1 - old
    else:
        new = _draw(scores[0], scores[1], rule.temperature, generator)
    ranked = rows.proposal == ALL_VALUES and gold >= 0
    if ranked and rule.atomic:
        score = scores[gold] - scores[1 - gold]
        _rank(rows, memory, rule, learning, state, (label, 1 - gold, gold), 1.0 / weight, score, tally)
    memory.move[0], memory.move[1], memory.move[2] = label, old, new
    if new == old:
        memory.move[0] = -1
        return 0.0, False
    tally[MOVED] += 1
    gain, before = _gain(gold, weight, old, new), scores[new] - scores[old]
    after = before
    if rule.atomic and not ranked:
        after = _rank(rows, memory, rule, learning, state, (label, old, new), gain, before, tally)
    if metropolis:
        level = (before if rule.stale else after) / rule.temperature
        uniform = next_uniform(generator)
        if not (level >= 0.0 or math.log(uniform) < level):
            return gain, False
    tally[ACCEPTED] += 1
    state[label] = new
    return gain, True


@kernel(_nrt=False)
def walk_label_sets(rows, memory, rule, learning, visits, tally, trace):
    """Walks and learns. ``tally`` int64 [visits, TALLY]; ``trace`` int64 [steps, 4], of the first steps."""
    traced = 0
    for visit in range(len(visits.document)):
        document = visits.document[visit]
        seed_stream(memory.generator, visits.seed, visits.stream[visit])
        _enter(rows, memory, learning.weights, document, visits.start[visit])
        for step in range(visits.steps[visit]):
            gain, accepted = _step(rows, memory, rule, learning, document, step, tally[visit])
            if traced < len(trace):
                for number in range(3):
                    trace[traced, number] = memory.move[number]
                trace[traced, 3] = accepted
                traced += 1
            if rule.truth != NO_TRUTH and (step + 1) % rule.every == 0:
                if not rule.truth_on_ties or abs(gain) <= rule.tolerance:
                    _learn_from_truth(rows, memory, rule, learning, document, tally[visit])
                if rule.reset:
                    for label in range(memory.states.shape[1]):
                        memory.states[document, label] = rows.gold[document, label]
        _leave(rows, memory, learning, document)
