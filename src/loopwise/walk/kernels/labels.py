"""Compiled walks over labellings: the worlds of factor graphs with table or sparse potentials.

In: distinct graphs as flat arrays, documents that refer to them, features in compressed rows. Out: proposals and
feature differences; signals are in :mod:`loopwise.walk.kernels.label_signals`. Below the stages. A step costs what the
factors of one variable cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import inlined, leaf
from loopwise.compiled.prefetch import prefetch
from loopwise.inference.gibbs.kernels.gibbs import next_uniform
from loopwise.walk.kernels.ahead import uniform_ahead
from loopwise.walk.kernels.codes import ALL_VALUES, FORCED, UNIFORM
from loopwise.walk.kernels.delta import add, append
from loopwise.walk.kernels.label_signals import label_gain

LINE = 8  # weights of a cache line


class LabelArrays(NamedTuple):
    """Documents over graphs. All integers lie in ``table``; a field says where its part begins.

    An incidence is one (variable, factor) pair; incidences go variable by variable.
    """

    table: np.ndarray  # int64
    index: np.ndarray  # int32 [entries]: the features of rows
    value: np.ndarray  # float64 [entries], or [0] where all are 1
    weight: np.ndarray  # float64 [documents]: what Hamming counts are divided by
    document_structure: int  # [documents]
    document_start: int  # [documents + 1], into the states of all documents
    free_start: int  # [documents + 1]
    free: int  # variables (numbered within the document) that may change
    structure_variable: int  # [structures], first variable
    cardinality: int  # [variables of structures]
    incidence_start: int  # [variables of structures + 1]
    incidence_group: int
    incidence_factor: int  # number within the group
    incidence_stride: int  # cells from one value to the next
    incidence_first: int  # 1 where the variable is the factor's first member
    other_start: int  # [incidences + 1]
    other_variable: int  # the factor's other members
    other_stride: int
    group_base: int  # [groups], first weight
    group_width: int  # [groups], columns
    group_column: int  # [groups], first of its cells in `column`, -1 where cell c reads column c
    group_alone: int  # [groups], 1 where no weight can come twice in a difference
    column: int
    row_base: int  # [documents, groups], row of factor 0
    row_step: int  # [documents, groups], 0 where all factors share a row
    row_start: int  # [rows + 1]
    gold: int  # like the states of all documents
    label_of: int  # [width], -1 none
    entity_type: int  # [width], -1 outside
    continues: int  # [width, width]
    gold_end: int  # end of the entity of the truth that begins here, or -1
    groups: int  # how many
    width: int  # the largest cardinality
    proposal: int
    far: bool  # whether the weights of a document are too many for a near cache, so that fetching them ahead pays
    scan: bool  # visit variables in turn, not at random
    metric: int
    beta: float
    labels: int  # how many the metric tells apart
    label_step: int  # labels from one variable to the next


class LabelWorld(NamedTuple):
    """The values of all documents, and the counts that the signal keeps of the one being walked."""

    states: np.ndarray  # int64
    counts: np.ndarray  # int64 [3 labels]: agreed, decided, gold
    scores: np.ndarray  # float64 [width]
    gains: np.ndarray  # float64 [width]


# --------------------------------------------------------------------------------------------- features


@inlined
def _base_cell(model, values, start, incidence):
    """Cell of the factor where the incidence's variable has value 0 and the others theirs."""
    cell = 0
    for other in range(model.table[model.other_start + incidence], model.table[model.other_start + incidence + 1]):
        cell += model.table[model.other_stride + other] * values[start + model.table[model.other_variable + other]]
    return cell


@inlined
def _row(model, document, incidence):
    group = model.table[model.incidence_group + incidence]
    return (
        model.table[model.row_base + document * model.groups + group]
        + model.table[model.incidence_factor + incidence]
        * model.table[model.row_step + document * model.groups + group]
    )


@inlined
def _column(model, group, cell):
    first = model.table[model.group_column + group]
    return cell if first < 0 else model.table[model.column + first + cell]


@inlined
def _emit_cell(model, document, incidence, cell, sign, delta):
    group = model.table[model.incidence_group + incidence]
    column = _column(model, group, cell)
    if column < 0:
        return
    row, width, first_key = (
        _row(model, document, incidence),
        model.table[model.group_width + group],
        model.table[model.group_base + group],
    )
    weighted = len(model.value) > 0
    first_key += column
    if model.table[model.group_alone + group]:
        for place in range(model.table[model.row_start + row], model.table[model.row_start + row + 1]):
            scale = sign * model.value[place] if weighted else sign
            append(delta, first_key + np.int64(model.index[place]) * width, scale)
    else:
        for place in range(model.table[model.row_start + row], model.table[model.row_start + row + 1]):
            scale = sign * model.value[place] if weighted else sign
            add(delta, first_key + np.int64(model.index[place]) * width, scale)


@inlined
def emit_value(model, world, document, variable, value, sign, delta):
    """Adds ``sign`` times the features of the variable's factors, were its value ``value``."""
    start = model.table[model.document_start + document]
    here = model.table[model.structure_variable + model.table[model.document_structure + document]] + variable
    for incidence in range(model.table[model.incidence_start + here], model.table[model.incidence_start + here + 1]):
        cell = (
            _base_cell(model, world.states, start, incidence) + model.table[model.incidence_stride + incidence] * value
        )
        _emit_cell(model, document, incidence, cell, sign, delta)


@leaf
def emit_labelling(model, values, document, sign, delta):
    """Adds ``sign`` times the features of a whole document; each key through its slot."""
    start, end = model.table[model.document_start + document], model.table[model.document_start + document + 1]
    first = model.table[model.structure_variable + model.table[model.document_structure + document]]
    weighted = len(model.value) > 0
    for variable in range(end - start):
        for incidence in range(
            model.table[model.incidence_start + first + variable],
            model.table[model.incidence_start + first + variable + 1],
        ):
            if not model.table[model.incidence_first + incidence]:
                continue
            group = model.table[model.incidence_group + incidence]
            cell = _base_cell(model, values, start, incidence)
            cell += model.table[model.incidence_stride + incidence] * values[start + variable]
            column = _column(model, group, cell)
            if column < 0:
                continue
            row = _row(model, document, incidence)
            for place in range(model.table[model.row_start + row], model.table[model.row_start + row + 1]):
                key = (
                    model.table[model.group_base + group]
                    + np.int64(model.index[place]) * model.table[model.group_width + group]
                    + column
                )
                add(delta, key, sign * model.value[place] if weighted else sign)


@inlined
def score_values(model, world, document, variable, weights):
    """Writes the score of each value of the variable given the rest into ``world.scores``; how many there are."""
    start = model.table[model.document_start + document]
    here = model.table[model.structure_variable + model.table[model.document_structure + document]] + variable
    size = model.table[model.cardinality + here]
    scores, weighted = world.scores, len(model.value) > 0
    for value in range(size):
        scores[value] = 0.0
    for incidence in range(model.table[model.incidence_start + here], model.table[model.incidence_start + here + 1]):
        group = model.table[model.incidence_group + incidence]
        base = _base_cell(model, world.states, start, incidence)
        row, width, stride = (
            _row(model, document, incidence),
            model.table[model.group_width + group],
            model.table[model.incidence_stride + incidence],
        )
        first_key, columns = model.table[model.group_base + group], model.table[model.group_column + group]
        for place in range(model.table[model.row_start + row], model.table[model.row_start + row + 1]):
            scale = model.value[place] if weighted else 1.0
            key = first_key + np.int64(model.index[place]) * width
            if columns < 0 and stride == 1:  # a row of weights, read in one go
                first = key + base
                for value in range(size):
                    scores[value] += weights[first + value] * scale
            elif columns < 0:
                for value in range(size):
                    scores[value] += weights[key + base + stride * value] * scale
            else:
                for value in range(size):
                    column = model.table[model.column + columns + base + stride * value]
                    if column >= 0:
                        scores[value] += weights[key + column] * scale
    return size


# -------------------------------------------------------------------------------------------- proposals


@inlined
def _draw(scores, size, temperature, generator):
    """A value with probability proportional to exp(score / temperature)."""
    top = -np.inf
    for value in range(size):
        top = max(top, scores[value])
    total = 0.0
    for value in range(size):
        total += math.exp((scores[value] - top) / temperature)
    left = next_uniform(generator) * total
    chosen = 0
    for value in range(size):
        share = math.exp((scores[value] - top) / temperature)
        if share > 0.0:
            chosen = value
            left -= share
            if left < 0.0:
                break
    return chosen


@leaf
def _draw_other(scores, size, old, temperature, generator):
    """A value other than ``old`` by its probability among those, and the log ratio of the proposal."""
    kept = scores[old]
    scores[old] = -np.inf
    new = _draw(scores, size, temperature, generator)
    top, leave, back = max(kept, scores[new]), 0.0, 0.0
    for value in range(size):
        top = max(top, scores[value])
    scores[old] = kept
    for value in range(size):
        share = math.exp((scores[value] - top) / temperature)
        if value != old:
            leave += share
        if value != new:
            back += share
    return new, (scores[old] - scores[new]) / temperature + math.log(leave) - math.log(back)


@inlined
def propose_label(model, world, document, weights, temperature, step, generator, move, pair):
    """Fills ``move`` (variable, old, new, 0): whether it changes anything, its log ratio (inf: always accept).

    ``pair`` (variable, worse, better): for the mode of all values, what to rank; variable -1 where nothing is.
    """
    first, count = (
        model.table[model.free_start + document],
        model.table[model.free_start + document + 1] - model.table[model.free_start + document],
    )
    pair[0] = -1
    if count == 0:
        return False, 0.0
    place = step % count if model.scan else np.int64(next_uniform(generator) * count)
    variable = model.table[model.free + first + place]
    old = world.states[model.table[model.document_start + document] + variable]
    move[0], move[1], ratio = variable, old, np.inf
    if model.proposal == UNIFORM:
        size = model.table[
            model.cardinality
            + model.table[model.structure_variable + model.table[model.document_structure + document]]
            + variable
        ]
        new = np.int64(next_uniform(generator) * (size - 1))
        if new >= old and size > 1:
            new += 1
        ratio = 0.0
        if size < 2:
            new = old
    else:
        size = score_values(model, world, document, variable, weights)
        if model.proposal == FORCED:
            new = old
            if size > 1:
                new, ratio = _draw_other(world.scores, size, old, temperature, generator)
        else:
            new = _draw(world.scores, size, temperature, generator)
            if model.proposal == ALL_VALUES:
                _rank_values(model, world, document, variable, old, size, pair)
    move[2] = new
    if model.far:
        _fetch_next(model, document, first, count, step, ratio != np.inf and new != old, generator, weights)
    return new != old, ratio


@inlined
def _fetch_next(model, document, first, count, step, accepting, generator, weights):
    """Has the weights of the next step's variable fetched: the first two lines of each row.

    ``accepting``: whether this step's acceptance takes a random number of its own.
    """
    place = (step + 1) % count
    if not model.scan:
        place = np.int64(uniform_ahead(generator, accepting) * count)
    variable = model.table[model.free + first + place]
    here = model.table[model.structure_variable + model.table[model.document_structure + document]] + variable
    for incidence in range(model.table[model.incidence_start + here], model.table[model.incidence_start + here + 1]):
        group = model.table[model.incidence_group + incidence]
        row, width = _row(model, document, incidence), model.table[model.group_width + group]
        first_key = model.table[model.group_base + group]
        for entry in range(model.table[model.row_start + row], model.table[model.row_start + row + 1]):
            key = first_key + np.int64(model.index[entry]) * width
            prefetch(weights, key)
            prefetch(weights, key + LINE)


@leaf
def _rank_values(model, world, document, variable, old, size, pair):
    """The best value by the model against the best by the signal, or against the best of lower signal."""
    gains, scores = world.gains, world.scores
    best = 0
    for value in range(size):
        gains[value] = label_gain(model, world, document, variable, old, value)
        if scores[value] > scores[best]:
            best = value
    right = 0
    for value in range(size):
        if gains[value] > gains[right] or (gains[value] == gains[right] and scores[value] > scores[right]):
            right = value
    pair[0] = variable
    if gains[best] < gains[right]:
        pair[1], pair[2] = best, right
        return
    rival = -1
    for value in range(size):
        if gains[value] < gains[best] and (rival < 0 or scores[value] > scores[rival]):
            rival = value
    pair[1], pair[2] = rival, best
    if rival < 0:
        pair[0] = -1
