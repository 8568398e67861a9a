"""The compiled walk: one loop for all models and learners, and one for search and sampling.

In: a model and a world as named tuples of arrays, a rule, visits (which document, how many steps, which random stream).
Out: weights, or best states and counts. Below the stages. What differs between models is chosen when the loop is
compiled, by the type of the model. :mod:`loopwise.walk.plain` is the same loop in Python classes and takes the same
steps, number for number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from loopwise.kernels import walk_clusters as clusters
from loopwise.kernels import walk_labels as labels
from loopwise.kernels.gibbs import next_uniform, seed_stream
from loopwise.kernels.walk_clusters import ClusterArrays
from loopwise.kernels.walk_codes import ACCEPTED, KEEP, MOVED, NO_TRUTH, STEPS, TRUTH
from loopwise.kernels.walk_delta import Delta, accumulate, clear, dot
from loopwise.kernels.walk_labels import LabelArrays
from loopwise.kernels.walk_rules import learn_from_truth, rank_pair
from loopwise.kernels.walk_user import UserArrays

# Without reference counts: counting them for each array of a model, at each call, takes ten times as long as the steps.
# What runs at every step is inlined besides, for else each call copies the hundred words that describe a model.
_COLD = {"_nrt": False, "nogil": True}
_HOT = {**_COLD, "forceinline": True}


class Visits(NamedTuple):
    """Documents in the order of their visits."""

    document: np.ndarray  # int64
    steps: np.ndarray  # int64
    start: np.ndarray  # int64, TRUTH, RANDOM, KEEP or SINGLETONS
    stream: np.ndarray  # int64, number of the random stream
    seed: int


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


class Search(NamedTuple):
    """How a search cools, checks its score and records samples."""

    first: float  # temperature of the first step
    last: float
    rescore: int  # steps between two evaluations from scratch
    burn_in: int  # steps before the first recorded state
    thinning: int  # steps between recorded states; 0: none
    samples: int


# --------------------------------------------- what differs between models: chosen by type, when compiled


def _by_model(for_labels, for_clusters, for_users):
    """A function of a model that is one of three, by the model's class."""

    def choose(model):
        kind = getattr(model, "instance_class", None)
        return {LabelArrays: for_labels, ClusterArrays: for_clusters, UserArrays: for_users}.get(kind)

    return choose


def extent(model, document):
    """First and last place of a document in the arrays of all documents."""


def begin(model, world, document, kind, generator):
    """Sets the start state."""


def propose(model, world, document, weights, temperature, step, generator, move, pair):
    """Fills ``move``; whether it changes anything, and its log ratio."""


def emit_move(model, world, document, move, delta):
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
        labels.begin_labels(model, world, document, kind, generator)

    def for_clusters(model, world, document, kind, generator):
        clusters.begin_clusters(model, world, document, kind, generator)

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

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(emit_move, jit_options=_HOT)
def _emit_move(model, world, document, move, delta):
    def for_labels(model, world, document, move, delta):
        labels.emit_value(model, world, document, move[0], move[1], -1.0, delta)
        labels.emit_value(model, world, document, move[0], move[2], 1.0, delta)

    def for_clusters(model, world, document, move, delta):
        clusters.emit_mention_move(model, world, document, move[0], move[1], move[2], delta)

    def for_users(model, world, document, move, delta):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.difference(model.data, model.number[document], state, move, delta)

    return _by_model(for_labels, for_clusters, for_users)(model)


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
        return labels.label_gain(model, world, document, move[0], move[1], move[2])

    def for_clusters(model, world, document, move):
        return clusters.mention_gain(model, world, document, move[0], move[1], move[2])

    def for_users(model, world, document, move):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        return model.gain(model.data, model.number[document], state, move)

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(apply_move, jit_options=_HOT)
def _apply_move(model, world, document, move):
    def for_labels(model, world, document, move):
        labels.apply_label(model, world, document, move[0], move[1], move[2])

    def for_clusters(model, world, document, move):
        clusters.apply_mention(model, world, document, move)

    def for_users(model, world, document, move):
        state = world.states[model.state_start[document] : model.state_start[document + 1]]
        model.apply(model.data, model.number[document], state, move)

    return _by_model(for_labels, for_clusters, for_users)(model)


@overload(undo_move, jit_options=_COLD)
def _undo_move(model, world, document, move):
    def for_labels(model, world, document, move):
        labels.apply_label(model, world, document, move[0], move[2], move[1])

    def for_clusters(model, world, document, move):
        clusters.undo_mention(model, world, document, move)

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
        return labels.label_gap(model, world, document)

    def for_clusters(model, world, document):
        return clusters.cluster_gap(model, world, document)

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

    return _by_model(always, always, never)(model)


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


# ------------------------------------------------------------------------------------------------ learning


@njit(cache=True, nogil=True, _nrt=False)
def _begin_visit(model, world, rule, work, document, kind):
    """Start state, and with a rule about the truth the difference to it."""
    generator = work.generator
    clear(work.truth)
    clear(work.gold)
    if rule.truth != NO_TRUTH and not rule.reset:
        start, end = extent(model, document)
        states = world.states
        if kind == KEEP:
            for place in range(start, end):
                work.items[place - start] = states[place]
        begin(model, world, document, TRUTH, generator)
        emit_state(model, world, document, 1.0, work.gold)
        if kind == KEEP:
            for place in range(start, end):
                states[place] = work.items[place - start]
    begin(model, world, document, kind, generator)
    if rule.truth != NO_TRUTH and not rule.reset and kind != TRUTH:
        _rebuild(model, world, work, document)


@njit(cache=True, nogil=True, _nrt=False)
def _rebuild(model, world, work, document):
    """The difference to the truth, from scratch."""
    clear(work.truth)
    accumulate(work.truth, work.gold, 1.0)
    emit_state(model, world, document, -1.0, work.truth)


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)
def _accepts(score, ratio, temperature, generator):
    """Metropolis and Hastings: always where the ratio is infinite (Gibbs)."""
    if ratio == np.inf:
        return True
    uniform = next_uniform(generator)
    level = score / temperature + ratio
    return level >= 0.0 or math.log(uniform) < level


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)
def _learn_step(model, world, rule, learning, work, document, step, tally):
    """Proposal, atomic update, acceptance; what the signal would gain, and whether the move was made."""
    weights, delta, move, pair = learning.weights, work.delta, work.move, work.pair
    pair[0] = -1
    learning.clock[0] += 1
    tally[STEPS] += 1
    moved, ratio = propose(model, world, document, weights, rule.temperature, step, work.generator, move, pair)
    if pair[0] >= 0 and rule.atomic:
        gain = emit_ranked(model, world, document, pair, delta)
        rank_pair(rule, learning, delta, gain, tally)
        clear(delta)
    if not moved:
        move[0] = -1
        return 0.0, False
    tally[MOVED] += 1
    gain = gain_of(model, world, document, move)
    if gain != gain:
        return gain, False
    emit_move(model, world, document, move, delta)
    if pair[0] < 0 and rule.atomic:
        before, after = rank_pair(rule, learning, delta, gain, tally)
        score = before if rule.stale else after
    else:
        score = 0.0 if ratio == np.inf else dot(delta, weights)
    accepted = _accepts(score, ratio, rule.temperature, work.generator)
    if accepted:
        tally[ACCEPTED] += 1
        apply_move(model, world, document, move)
        if rule.truth != NO_TRUTH:
            accumulate(work.truth, delta, -1.0)
    clear(delta)
    return gain, accepted


@njit(cache=True, nogil=True, _nrt=False)
def _truth_step(model, world, rule, learning, work, document, step, gain, accepted, depth, tally):
    """The update towards the truth that is due after a step, and the way back there; the moves still to undo."""
    if accepted and rule.reset:
        for number in range(4):
            work.stack[depth, number] = work.move[number]
        depth += 1
    if (step + 1) % rule.every == 0:
        if not rule.truth_on_ties or abs(gain) <= rule.tolerance:
            learn_from_truth(rule, learning, work.truth, gap_of(model, world, document), tally)
        if rule.reset:
            while depth > 0:
                depth -= 1
                undo_move(model, world, document, work.stack[depth])
            clear(work.truth)
    if not rule.reset and (step + 1) % rule.rebuild == 0:
        _rebuild(model, world, work, document)
    return depth


@njit(cache=True, nogil=True, _nrt=False)
def run_walk(model, world, rule, learning, visits, work, tally, trace):
    """Walks and learns; -1, or the number of the visit in which the signal was not a number.

    ``tally`` int64 [visits, TALLY]. ``trace`` int64 [steps, 4]: item, old, new, accepted of the first steps.
    """
    traced = 0
    for visit in range(len(visits.document)):
        document = visits.document[visit]
        seed_stream(work.generator, visits.seed, visits.stream[visit])
        _begin_visit(model, world, rule, work, document, visits.start[visit])
        depth = np.int64(0)  # typed as what _truth_step gives back, which is then compiled once
        for step in range(visits.steps[visit]):
            gain, accepted = _learn_step(model, world, rule, learning, work, document, step, tally[visit])
            if gain != gain:
                return visit
            if traced < len(trace):
                for number in range(3):
                    trace[traced, number] = work.move[number]
                trace[traced, 3] = accepted
                traced += 1
            if rule.truth != NO_TRUTH:
                depth = _truth_step(
                    model, world, rule, learning, work, document, step, gain, accepted, depth, tally[visit]
                )
    return -1


# -------------------------------------------------------------------------------------- search and sampling


@njit(cache=True, nogil=True, _nrt=False)
def _full_score(model, world, document, weights, delta):
    clear(delta)
    emit_state(model, world, document, 1.0, delta)
    score = dot(delta, weights)
    clear(delta)
    return score


@njit(cache=True, nogil=True, _nrt=False)
def _keep_best(model, world, start, work, changed, best):
    """Brings ``best`` up to the state: the items of the journal, or everything where it ran over."""
    states = world.states
    if changed > len(work.items) or not single_changes(model):
        for item in range(len(best)):
            best[item] = states[start + item]
        return
    for number in range(changed):
        item = work.items[number]
        best[item] = states[start + item]


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)
def _search_step(model, world, weights, temperature, work, document, step, tally):
    """One step without learning; the rise of the score, and whether a move was made."""
    moved, ratio = propose(model, world, document, weights, temperature, step, work.generator, work.move, work.pair)
    tally[STEPS] += 1
    if not moved:
        return 0.0, False
    tally[MOVED] += 1
    emit_move(model, world, document, work.move, work.delta)
    rise = dot(work.delta, weights)
    clear(work.delta)
    if not _accepts(rise, ratio, temperature, work.generator):
        return 0.0, False
    tally[ACCEPTED] += 1
    apply_move(model, world, document, work.move)
    return rise, True


@njit(cache=True, nogil=True, _nrt=False)
def _sample_number(search, step):
    """Number of the sample that is due after a step, or -1."""
    past = step + 1 - search.burn_in
    if search.thinning <= 0 or past <= 0 or past % search.thinning != 0:
        return -1
    number = past // search.thinning - 1
    return number if number < search.samples else -1


@njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def _search_visit(model, world, weights, visits, visit, search, work, best, counts, tally):
    """One search; ``best`` is filled with the best state met."""
    document, steps = visits.document[visit], visits.steps[visit]
    start, _ = extent(model, document)
    seed_stream(work.generator, visits.seed, visits.stream[visit])
    begin(model, world, document, visits.start[visit], work.generator)
    score = _full_score(model, world, document, weights, work.delta)
    best_score, temperature = score, search.first
    changed = len(work.items) + 1
    _keep_best(model, world, start, work, changed, best)
    changed = 0
    factor = math.exp(math.log(search.last / search.first) / max(steps, 1))
    for step in range(steps):
        rise, accepted = _search_step(model, world, weights, temperature, work, document, step, tally)
        temperature *= factor
        if accepted:
            score += rise
            if changed < len(work.items):
                work.items[changed] = work.move[0]
            changed += 1
        if (step + 1) % search.rescore == 0:
            score = _full_score(model, world, document, weights, work.delta)
        if accepted and score > best_score:
            best_score = score
            _keep_best(model, world, start, work, changed, best)
            changed = 0
        number = _sample_number(search, step)
        if number >= 0:
            record(model, world, document, counts[0 if number < search.samples // 2 else 1])


@njit(cache=True, nogil=True, _nrt=False)
def run_search(model, world, weights, visits, search, work, best, best_start, scores, counts, tally):
    """Walks without learning, cooling geometrically; each visit's best state is where its document is left.

    ``best`` int64: the best state of each visit, from ``best_start[visit]`` on. ``scores`` float64 [visits]: theirs,
    computed from scratch. ``counts`` int64 [visits, 2, cells]: recorded states in each half of the samples. ``tally``
    int64 [visits, TALLY].
    """
    for visit in range(len(visits.document)):
        document = visits.document[visit]
        mine = best[best_start[visit] : best_start[visit + 1]]
        _search_visit(model, world, weights, visits, visit, search, work, mine, counts[visit], tally[visit])
        states = world.states
        start, end = extent(model, document)
        for item in range(end - start):
            states[start + item] = mine[item]
        begin(model, world, document, KEEP, work.generator)
        scores[visit] = _full_score(model, world, document, weights, work.delta)
