"""The compiled walk that does not learn: search for the best state as it cools, and samples for marginals.

In: a model and a world as named tuples of arrays, weights, visits. Out: best states, their scores, counts. Below the
stages.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from loopwise.compiled.decorators import inlined, kernel, leaf
from loopwise.inference.gibbs.kernels.gibbs import seed_stream
from loopwise.walk.kernels.codes import ACCEPTED, KEEP, MOVED, STEPS
from loopwise.walk.kernels.delta import clear, dot
from loopwise.walk.kernels.models import (
    accepts,
    apply_move,
    begin,
    delta_features,
    emit_state,
    extent,
    propose,
    record,
    single_changes,
)


class Search(NamedTuple):
    """How a search cools, checks its score and records samples."""

    first: float  # temperature of the first step
    last: float
    rescore: int  # steps between two evaluations from scratch
    burn_in: int  # steps before the first recorded state
    thinning: int  # steps between recorded states; 0: none
    samples: int


class SearchArrays(NamedTuple):
    """What searches find."""

    best: Any  # int64, the best state of each visit, from best_start[visit] on
    best_start: Any
    scores: Any  # [visits], theirs, computed from scratch
    counts: Any  # int64 [visits, 2, cells], recorded states in each half of the samples


@leaf
def _full_score(model, world, document, weights, delta):
    clear(delta)
    emit_state(model, world, document, 1.0, delta)
    score = dot(delta, weights)
    clear(delta)
    return score


@leaf
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


@inlined
def _search_step(model, world, weights, temperature, work, document, step, tally):
    """One step without learning; the rise of the score, and whether a move was made."""
    moved, ratio = propose(model, world, document, weights, temperature, step, work.generator, work.move, work.pair)
    tally[STEPS] += 1
    if not moved:
        return 0.0, False
    tally[MOVED] += 1
    delta_features(model, world, document, work.move, work.delta)
    rise = dot(work.delta, weights)
    clear(work.delta)
    if not accepts(rise, ratio, temperature, work.generator):
        return 0.0, False
    tally[ACCEPTED] += 1
    apply_move(model, world, document, work.move)
    return rise, True


@leaf
def _sample_number(search, step):
    """Number of the sample that is due after a step, or -1."""
    past = step + 1 - search.burn_in
    if search.thinning <= 0 or past <= 0 or past % search.thinning != 0:
        return -1
    number = past // search.thinning - 1
    return number if number < search.samples else -1


@leaf
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


@kernel(_nrt=False)
def run_search(model, world, weights, visits, search, work, found, tally):
    """Walks without learning, cooling geometrically; each visit's best state is where its document is left.

    ``found``: :class:`SearchArrays`, written. ``tally`` int64 [visits, TALLY].
    """
    best_start = found.best_start
    for visit in range(len(visits.document)):
        document = visits.document[visit]
        mine = found.best[best_start[visit] : best_start[visit + 1]]
        _search_visit(model, world, weights, visits, visit, search, work, mine, found.counts[visit], tally[visit])
        states = world.states
        start, end = extent(model, document)
        for item in range(end - start):
            states[start + item] = mine[item]
        begin(model, world, document, KEEP, work.generator)
        found.scores[visit] = _full_score(model, world, document, weights, work.delta)
