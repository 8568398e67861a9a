"""Training: the pair model from labels, and on held-out labels the choice of how clusters are made of it.

In: a table, true entities or labelled pairs. Out: :class:`TrainedDedupe`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from loopwise.apps.dedupe.compare import Comparer, Similarities
from loopwise.apps.dedupe.entities import EntityModel
from loopwise.apps.dedupe.labels import Labels, clearly_more
from loopwise.apps.dedupe.pair_model import PairModel
from loopwise.apps.dedupe.report import DedupeReport
from loopwise.apps.dedupe.table import CandidateTable
from loopwise.decode.scored_pairs import (
    CandidateParts,
    Graph,
    average_clusters,
    closed,
    cut_components,
    joined_clusters,
    matched_clusters,
    parts_of,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Reached = dict["Way", list[float]]  # of each way, on each held-out half

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of the pull towards the model without labels, that are tried
STRENGTH = 10.0  # of them the one that is usual ...
PER_DECADE = 4.0  # ... and the loss on held-out labels that another must save for each factor of ten
ENTITY_STRENGTHS = (1.0, 10.0, 100.0)  # of the same pull, where ids are known
THRESHOLDS = (-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
MOST_PAIRS = 60_000  # that train the pair model
FOLDS = 5  # of labelled pairs
FEW = 5.0  # labelled pairs that pull the threshold half of the way from that without labels to that with many
PRICE = 1.0  # labelled pairs that a threshold must set right to be one logit farther from the usual one
UNLABELLED, LABELLED = 3.0, 0.0  # thresholds without labels, and with many, which tell how sure EM may be
LINKED, LABELLED_LINKED = -2.0, -3.0  # those of one-to-one links: that no better partner is left speaks for a pair
JOIN = 3.0  # the mean of best links at which clusters of average linkage are joined, where ids show no harm
SAMPLES = 24  # random halves of the entities, by which the standard error of a difference is known
CLEARLY = 1.0  # standard errors by which a threshold must be worse to be ruled out
BETTER = 0.002  # by which another way than average linkage must be better to be taken
SAME = 0.0005  # by which thresholds do not differ


class Method(str, Enum):
    """How clusters are made of scored pairs, in the order in which they are preferred.

    Connected components are made only where they are asked for: what they join grows with the table, and one wrong pair
    joins two entities, so that the threshold that is best on held-out entities is none for the next.
    """

    AVERAGE = "average"
    MATCHED = "one-to-one"
    ENTITIES = "entities"
    WALK = "walk"
    CONNECTED = "connected"


WALKS = (Method.ENTITIES, Method.WALK)


class Way(NamedTuple):
    """How clusters are made, with which threshold; of walks, the linkage at which they begin, which has it.

    ``join``: the mean of best links at which clusters of average linkage are joined, if at all.
    """

    method: Method
    threshold: float
    start: Method = Method.AVERAGE
    join: float | None = None

    @property
    def zero(self) -> float:
        """The logit above which a pair speaks for one cluster in a walk: that of the means of average linkage; the
        threshold of connected components is about best pairs, and says nothing of others."""
        return self.threshold if self.start is Method.AVERAGE else 0.0


@dataclass(frozen=True, eq=False)
class TrainedDedupe:
    """Everything that resolving a table needs, besides the table."""

    pairs: PairModel
    way: Way
    entities: EntityModel
    choices: dict[str, float] = field(default_factory=dict)  # what each way reached on held-out labels
    pull: float | None = None  # of labelled pairs towards the model without labels; None: they changed nothing

    @property
    def method(self) -> Method:
        return self.way.method

    def clusters(self, table: CandidateTable, graph: Graph, parts: CandidateParts) -> Integers:
        """The cluster of each record, named by its smallest record."""
        return clusters_by(self.way, self.entities, table, graph, parts)


def clusters_by(
    way: Way, entities: EntityModel, table: CandidateTable, graph: Graph, parts: CandidateParts
) -> Integers:
    """Clusters by one way."""
    if way.method is Method.MATCHED:
        return matched_clusters(graph, way.threshold)
    linkage = way.start if way.method in WALKS else way.method
    if linkage is Method.CONNECTED:
        found = cut_components(graph, way.threshold)
    else:
        found = average_clusters(parts, way.threshold, way.threshold)
        if way.join is not None:
            found = joined_clusters(parts, found, max(way.join, way.threshold))
    return entities.improved(parts.above(way.zero), found, table.agreement) if way.method in WALKS else found


# --------------------------------------------------------------------------------------------------- no labels


def train_without(table: CandidateTable, seed: int, only: Method | None = None) -> TrainedDedupe:
    """EM alone; ``only``: how clusters are made, where that is not left open."""
    levels = table.levels(seed)
    if table.linking:
        table.watch_rivals(levels)
    model = PairModel.unlabelled(levels, len(table.comparer.names))
    method = only or (Method.MATCHED if table.linking else Method.AVERAGE)
    usual = LINKED if method is Method.MATCHED else UNLABELLED
    return TrainedDedupe(model, Way(method, usual), _untrained(table, seed))


def _untrained(table: CandidateTable, seed: int) -> EntityModel:
    return EntityModel.untrained(len(table.comparer.columns), seed)


# ------------------------------------------------------------------------------------------------ labelled pairs


def train_on_pairs(
    table: CandidateTable, labels: Labels, one_to_one: bool, seed: int, only: Method | None = None
) -> TrainedDedupe:
    """The pair model from labelled pairs, pulled towards EM as hard as held-out pairs say.

    It is taken if its clusters have clearly more labelled pairs right than those of EM alone, which stays otherwise: a
    few labels must not make worse what they cannot tell to be better.
    """
    base = train_without(table, seed)
    pairs = np.concatenate([labels.matches, labels.distinct])
    match = np.concatenate([np.ones(len(labels.matches)), np.zeros(len(labels.distinct))])
    method = only or (Method.MATCHED if one_to_one else Method.AVERAGE)
    alone, taught = (LINKED, LABELLED_LINKED) if one_to_one else (UNLABELLED, LABELLED)
    kept = TrainedDedupe(base.pairs, Way(method, alone), base.entities)
    if min(match.sum(), (1 - match).sum()) < 2:
        return kept
    found = table.comparer.compute(pairs[:, 0], pairs[:, 1])
    strength = _strength(base.pairs, table.comparer, found, match, seed)
    model = base.pairs.fitted(table.comparer, found, match, np.ones(len(match)), strength)
    usual = taught + (alone - taught) * FEW / (FEW + len(match))
    cut = min(
        _cuts(table, model, method, THRESHOLDS, pairs, match > 0),
        key=lambda cut: int((~cut.right).sum()) + PRICE * abs(cut.threshold - usual),
    )
    if clearly_more(cut.right, _cuts(table, base.pairs, method, [alone], pairs, match > 0)[0].right):
        return TrainedDedupe(model, Way(method, cut.threshold), base.entities, pull=strength)
    return kept


class _Cut(NamedTuple):
    """A threshold, and which labelled pairs its clusters have right."""

    threshold: float
    right: Mask


def _cuts(
    table: CandidateTable, model: PairModel, method: Method, thresholds: Sequence[float], pairs: Integers, match: Mask
) -> list[_Cut]:
    """What each threshold makes of labelled pairs."""
    graph = table.graph(model)
    parts = table.parts(model, graph)
    cuts = []
    for threshold in thresholds:
        found = clusters_by(Way(method, threshold), _untrained(table, 0), table, graph, parts)
        cuts.append(_Cut(threshold, (found[pairs[:, 0]] == found[pairs[:, 1]]) == match))
    return cuts


def _strength(base: PairModel, comparer: Comparer, found: Similarities, match: Floats, seed: int) -> float:
    """The pull with the least loss on held-out labels, where what is far from the usual one counts as some loss more.

    A few labels tell how sure EM may be, which any pull lets them, but little of how much each comparison counts.
    """
    fold = _dealt(match, seed)
    loss = PER_DECADE * np.abs(np.log10(np.array(STRENGTHS) / STRENGTH))
    for held in range(FOLDS):
        kept, out = fold != held, fold == held
        for number, strength in enumerate(STRENGTHS):
            model = base.fitted(comparer, found[kept], match[kept], np.ones(int(kept.sum())), strength)
            logit = model.logit(comparer, found[out])
            loss[number] -= log_expit(np.where(match[out] > 0, logit, -logit)).sum()
    return STRENGTHS[int(loss.argmin())]


def _dealt(match: Floats, seed: int) -> Integers:
    """The fold of each label; matches and others are dealt apart, so that each fold has its share."""
    fold = np.zeros(len(match), dtype=np.int64)
    random = np.random.default_rng(seed)
    for side in (match > 0, match <= 0):
        fold[side] = random.permutation(int(side.sum())) % FOLDS
    return fold


# ------------------------------------------------------------------------------------------------------ true ids


class _TruePairs(NamedTuple):
    """Candidate pairs of records whose entities are known; ``evenly``: what each counts, so that all records that have
    such pairs count the same, however many others their entity has."""

    found: Similarities
    match: Floats
    evenly: Floats

    @staticmethod
    def of(table: CandidateTable, truth: Integers, known: Mask, seed: int) -> _TruePairs:
        chosen = np.flatnonzero(known[table.one] & known[table.other])
        if len(chosen) > MOST_PAIRS:
            chosen = np.sort(np.random.default_rng(seed).choice(chosen, MOST_PAIRS, replace=False))
        one, other = table.one[chosen], table.other[chosen]
        match = (truth[one] == truth[other]).astype(np.float64)
        evenly = np.zeros(len(match))
        for side in (match > 0, match <= 0):
            count = np.bincount(one[side], minlength=len(truth)) + np.bincount(other[side], minlength=len(truth))
            share = 1.0 / count[one[side]] + 1.0 / count[other[side]]
            evenly[side] = share * (side.sum() / share.sum()) if side.any() else share
        return _TruePairs(table.comparer.compute(one, other), match, evenly)

    @property
    def both(self) -> bool:
        """Whether there are matches and others, so that something can be learnt."""
        return bool(0 < self.match.sum() < len(self.match))

    def taught(self, base: PairModel, comparer: Comparer, strength: float) -> PairModel:
        """The pair model of these pairs."""
        if not self.both:
            return base
        return base.fitted(comparer, self.found, self.match, np.ones(len(self.match)), strength)

    def loss(self, model: PairModel, comparer: Comparer) -> float:
        """The mean loss of a model that has not seen these pairs."""
        logit = model.logit(comparer, self.found)
        return float(-self.evenly @ log_expit(np.where(self.match > 0, logit, -logit)) / max(len(self.match), 1))


class _Half(NamedTuple):
    """A model of one half of the entities, and the scored graph of the other."""

    model: PairModel
    learnt: Mask
    held: Mask
    graph: Graph
    parts: CandidateParts


def train_on_entities(
    table: CandidateTable, truth: Integers, one_to_one: bool, seed: int, only: Method | None = None
) -> TrainedDedupe:
    """All models from records whose entities are known; how clusters are made is chosen on held-out entities.

    Entities are halved; each half is resolved by models of the other. The pull towards EM is that with which they have
    the least loss there, each record counting the same: a few large entities have nearly all matches, and what
    is so of these need not be so of the next. Of all ways the one with the best mean of B-cubed F1 and pairwise F1 is
    taken, average linkage if it is as good: so the model of entities is used only where it is better than the pairwise
    model with its best threshold. Its walk begins at average linkage. Thresholds of linkages are then chosen on all
    records together, each pair scored by a model that has not seen it, for a larger table needs a higher one
    (:func:`_of_whole_table`). The pair model that is kept is the mean of that of all entities and those of the halves:
    what one large entity has taught it weighs less. ``only``: a way that is to be taken, whatever is best; with the
    model of entities the linkage stands where the walk that begins there is no better.
    """
    levels = table.levels(seed)
    if table.linking:
        table.watch_rivals(levels)
    base = PairModel.unlabelled(levels, len(table.comparer.names))
    half = np.random.default_rng(seed).permutation(int(truth.max()) + 1) % 2
    strength, halves = _halves(table, base, truth, half, seed)
    linkage = Method.MATCHED if one_to_one else Method.CONNECTED if only is Method.CONNECTED else Method.AVERAGE
    reached = _linkages(table, halves, truth, linkage)
    if not one_to_one and only in (None, *WALKS):
        reached |= _walks(table, halves, truth, reached, seed)
    known = truth >= 0
    whole = _TruePairs.of(table, truth, known, seed).taught(base, table.comparer, strength)
    model = PairModel.mean([whole, *(each.model for each in halves)], [len(halves) or 1, *(1 for _ in halves)])
    allowed = {way: values for way, values in reached.items() if _allowed(way.method, only)}
    way = _choice(allowed or {Way(only or Method.AVERAGE, 0.0): [0.0]}, one_to_one)
    if len(halves) == 2:
        on_all = partial(_on_all, table, [each.model for each in halves], half, truth)
        way = _of_whole_table(way, on_all, LABELLED_LINKED if one_to_one else LABELLED)
    entities = _untrained(table, seed)
    if way.method is Method.ENTITIES:
        entities = _trained_entities(table, model, truth, known, way.zero, seed)
    best: dict[str, float] = {}
    for each, values in reached.items():
        best[each.method.value] = max(best.get(each.method.value, 0.0), float(np.mean(values)))
    return TrainedDedupe(model, way, entities, best, strength)


def _allowed(method: Method, only: Method | None) -> bool:
    """Whether a way may be chosen; the model of entities also may stay at the linkage where its walk begins."""
    return method is not Method.WALK if only is Method.ENTITIES else only in (None, method)


def _halves(
    table: CandidateTable, base: PairModel, truth: Integers, half: Integers, seed: int
) -> tuple[float, list[_Half]]:
    """The pull with the least loss on the other half, and with it both halves."""
    sides = [(truth >= 0) & (half[truth] == number) for number in (0, 1)]
    if min(int(side.sum()) for side in sides) < 2:
        return ENTITY_STRENGTHS[0], []
    comparer, pairs = table.comparer, [_TruePairs.of(table, truth, side, seed) for side in sides]
    taught = {strength: [each.taught(base, comparer, strength) for each in pairs] for strength in ENTITY_STRENGTHS}
    loss = {
        strength: sum(other.loss(model, comparer) for model, other in zip(models, reversed(pairs), strict=True))
        for strength, models in taught.items()
    }
    best = min(ENTITY_STRENGTHS, key=loss.__getitem__) if all(each.both for each in pairs) else ENTITY_STRENGTHS[0]
    found = []
    for model, learnt, held in zip(taught[best], sides, reversed(sides), strict=True):
        graph = table.graph(model, held)
        found.append(_Half(model, learnt, held, graph, table.parts(model, graph)))
    return best, found


def _score(table: CandidateTable, found: Integers, truth: Integers, among: Mask) -> float:
    """The mean of B-cubed F1 and pairwise F1."""
    report = DedupeReport.of(found[among], truth[among], table.side[among])
    return (report.b_cubed + report.pairwise_f1) / 2


def _linkages(table: CandidateTable, halves: Sequence[_Half], truth: Integers, linkage: Method) -> Reached:
    """What a linkage reaches."""
    untrained = _untrained(table, 0)
    reached: Reached = {}
    for each in halves:
        for way in _linkages_of(linkage):
            found = clusters_by(way, untrained, table, each.graph, each.parts)
            reached.setdefault(way, []).append(_score(table, found, truth, each.held))
    return reached


def _linkages_of(method: Method) -> list[Way]:
    """A linkage with each threshold; average linkage with its clusters joined, and as they are."""
    joins = (None, JOIN) if method is Method.AVERAGE else (None,)
    return [Way(method, threshold, join=join) for threshold in THRESHOLDS for join in joins]


def _walks(table: CandidateTable, halves: Sequence[_Half], truth: Integers, reached: Reached, seed: int) -> Reached:
    """What walks reach that begin at the best average linkage."""
    start = _choice(reached, False)
    found: Reached = {}
    for each in halves:
        taught = _trained_entities(table, each.model, truth, each.learnt, start.zero, seed)
        for method, model in ((Method.ENTITIES, taught), (Method.WALK, _untrained(table, seed))):
            way = start._replace(method=method)
            clusters = clusters_by(way, model, table, each.graph, each.parts)
            found.setdefault(way, []).append(_score(table, clusters, truth, each.held))
    return found


def _on_all(table: CandidateTable, models: list[PairModel], half: Integers, truth: Integers, method: Method) -> Reached:
    """What the thresholds of a linkage reach on all known records, and on random halves of their entities, pairs being
    scored by models that have not seen them.

    A model has seen the pairs within its half; pairs across the halves, which none has, get the mean of both.
    """

    def unseen(one: Integers, other: Integers) -> Floats:
        first, second = (table.score(model, one, other) for model in models)
        ours, theirs = half[truth[one]], half[truth[other]]
        return np.where(ours != theirs, (first + second) / 2, np.where(ours == 0, second, first))

    known = truth >= 0
    among = known[table.one] & known[table.other]
    one, other = table.one[among], table.other[among]
    graph = table.kept(one, other, unseen(one, other))
    parts = parts_of(closed(graph, unseen, table.side))
    entities = _untrained(table, 0)
    among_all = [known, *_samples(truth)]
    reached: Reached = {}
    for way in _linkages_of(method):
        found = clusters_by(way, entities, table, graph, parts)
        reached[way] = [_score(table, found, truth, among) for among in among_all]
    return reached


def _of_whole_table(way: Way, on_all: Callable[[Method], Reached], usual: float) -> Way:
    """The way with the threshold that all records together say, of which ``on_all`` tells what a linkage reaches.

    That of connected components is about best pairs, for which no threshold is usual.
    """
    linkage = way.start if way.method in WALKS else way.method
    whole = on_all(linkage)
    if linkage is Method.CONNECTED:
        best = _choice({each: values[:1] for each, values in whole.items()}, False)
    else:
        best = _settled(whole, usual)
    return way._replace(threshold=best.threshold, join=best.join)


def _samples(truth: Integers) -> list[Mask]:
    """The records of random halves of the entities."""
    random, entities = np.random.default_rng(0), int(truth.max()) + 1
    chosen = (random.permutation(entities) < (entities + 1) // 2 for _ in range(SAMPLES))
    return [(truth >= 0) & each[truth] for each in chosen]


def _settled(reached: Reached, usual: float) -> Way:
    """The threshold nearest to the usual one that is not clearly worse than the best: the entities of one table do not
    tell the thresholds of the next more finely. Clusters are joined unless that is worse at this threshold.

    ``reached``: of each way on all records, then on random halves of their entities, over which differences vary as
    much as over tables like this one.
    """
    scores = {way: np.array(values) for way, values in reached.items()}
    best = max(scores.values(), key=lambda values: float(values[0]))
    fine = [way for way, values in scores.items() if best[0] - values[0] <= CLEARLY * (best - values)[1:].std() + SAME]
    near = min(fine, key=lambda way: (abs(way.threshold - usual), way.threshold)).threshold
    there = [way for way in reached if way.threshold == near]
    good = max(reached[way][0] for way in there) - BETTER
    return max((way for way in there if reached[way][0] >= good), key=lambda way: way.join is not None)


def _choice(reached: Reached, one_to_one: bool) -> Way:
    """The best way: of methods that are as good the first, of its thresholds that are as good the middle one."""
    if not reached:
        return Way(Method.MATCHED if one_to_one else Method.AVERAGE, 0.0)
    mean = {way: float(np.mean(values)) for way, values in reached.items()}
    top = {way.method: max(value for other, value in mean.items() if other.method is way.method) for way in mean}
    best = next(method for method in Method if top.get(method, -1.0) >= max(top.values()) - BETTER)
    fine = [way for way, value in mean.items() if way.method is best and value >= top[best] - SAME]
    of_start = [way for way in fine if way.start is fine[0].start]
    of_start = [way for way in of_start if way.join is not None] or of_start
    return sorted(of_start, key=lambda way: way.threshold)[len(of_start) // 2]


def _trained_entities(
    table: CandidateTable, model: PairModel, truth: Integers, known: Mask, zero: float, seed: int
) -> EntityModel:
    parts = table.parts(model, table.graph(model, known)).above(zero)
    return _untrained(table, seed).trained(parts, truth, table.agreement)
