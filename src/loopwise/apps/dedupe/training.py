"""Training: the pair model from labels, and on held-out labels the choice of how clusters are made of it.

In: a table, true entities or labelled pairs. Out: :class:`Trained`. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from loopwise.apps.dedupe.candidates import (
    Graph,
    Parts,
    average_clusters,
    closed,
    connected_clusters,
    matched_clusters,
    parts_of,
)
from loopwise.apps.dedupe.compare import Similarities
from loopwise.apps.dedupe.entities import EntityModel
from loopwise.apps.dedupe.labels import Labels
from loopwise.apps.dedupe.pair_model import PairModel
from loopwise.apps.dedupe.report import Report
from loopwise.apps.dedupe.table import Table

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Reached = dict[tuple["Method", float], list[float]]  # of each way and threshold, on each held-out half

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 300.0, inf)  # of the pull towards the model without labels, that are tried
THRESHOLDS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
MOST_PAIRS = 60_000  # that train the pair model
FOLDS = 5  # of labelled pairs
FEW = 30  # labelled pairs that pull the threshold half of the way from that without labels to 0
CHANCE = 1.645  # standard errors by which labelled pairs must favour the model that they train
PRICE = 1.0  # labelled pairs that a threshold must set right to be one logit farther from the usual one
UNLABELLED = 2.0  # threshold where there are no labels; the more there are, the nearer it comes to 0
LINKED = -2.0  # threshold of one-to-one links: that no better partner is left speaks for a pair already
BETTER = 0.002  # by which another way than average linkage must be better to be taken
SAME = 0.0005  # by which thresholds do not differ


class Method(str, Enum):
    """How clusters are made of scored pairs, in the order in which they are preferred.

    Connected components come last: what they join grows with the table, which held-out parts of it do not show.
    """

    AVERAGE = "average"
    MATCHED = "one-to-one"
    ENTITIES = "entities"
    WALK = "walk"
    CONNECTED = "connected"


@dataclass(frozen=True, eq=False)
class Trained:
    """Everything that resolving a table needs, besides the table."""

    pairs: PairModel
    method: Method
    threshold: float
    entities: EntityModel
    choices: dict[str, float] = field(default_factory=dict)  # what each way reached on held-out labels

    def clusters(self, table: Table, graph: Graph, parts: Parts) -> Integers:
        """The cluster of each record, named by its smallest record."""
        return clusters_by(self.method, self.threshold, self.entities, table, graph, parts)


def clusters_by(
    method: Method, threshold: float, entities: EntityModel, table: Table, graph: Graph, parts: Parts
) -> Integers:
    """Clusters by one way."""
    if method is Method.CONNECTED:
        return connected_clusters(graph, threshold)
    if method is Method.MATCHED:
        return matched_clusters(graph, threshold)
    found = average_clusters(parts, threshold, threshold)
    return found if method is Method.AVERAGE else entities.improved(parts, found, table.agreement)


# --------------------------------------------------------------------------------------------------- no labels


def train_without(table: Table, seed: int) -> Trained:
    """EM alone."""
    levels = table.levels(seed)
    if table.linking:
        table.watch_rivals(levels)
    model = PairModel.unlabelled(levels, len(table.comparer.names))
    method = Method.MATCHED if table.linking else Method.AVERAGE
    return Trained(model, method, LINKED if table.linking else UNLABELLED, _untrained(table, seed))


def _untrained(table: Table, seed: int) -> EntityModel:
    return EntityModel.untrained(len(table.comparer.columns), seed)


# ------------------------------------------------------------------------------------------------ labelled pairs


def train_on_pairs(table: Table, labels: Labels, one_to_one: bool, seed: int) -> Trained:
    """The pair model from labelled pairs, pulled towards EM as hard as held-out pairs say.

    It is taken if its clusters have clearly more labelled pairs right than those of EM alone, which stays otherwise: a
    few labels must not make worse what they cannot tell to be better.
    """
    base = train_without(table, seed)
    pairs = np.concatenate([labels.matches, labels.distinct])
    match = np.concatenate([np.ones(len(labels.matches)), np.zeros(len(labels.distinct))])
    found = table.comparer.compute(pairs[:, 0], pairs[:, 1])
    method = Method.MATCHED if one_to_one else Method.AVERAGE
    usual = LINKED if one_to_one else UNLABELLED
    if min(match.sum(), (1 - match).sum()) < 2:
        return Trained(base.pairs, method, usual, base.entities)
    kept = _threshold(table, base.pairs, method, pairs, match > 0, usual)
    strength = _strength(table, base.pairs, found, match, seed)
    if strength < inf:
        model = base.pairs.fitted(table.comparer, found, match, np.ones(len(match)), strength)
        nearer = usual if one_to_one else UNLABELLED * FEW / (FEW + len(match))
        cut = _threshold(table, model, method, pairs, match > 0, nearer)
        if _clearly(cut.right, kept.right):
            return Trained(model, method, cut.threshold, base.entities, {"pull": strength})
    return Trained(base.pairs, method, kept.threshold, base.entities)


def _clearly(ours: Mask, theirs: Mask) -> bool:
    """Whether more labelled pairs are right by one way than by another, beyond chance (a sign test, one in twenty)."""
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    return won - lost > CHANCE * sqrt(won + lost)


class _Cut(NamedTuple):
    """A threshold, and which labelled pairs its clusters have right."""

    threshold: float
    right: Mask


def _threshold(table: Table, model: PairModel, method: Method, pairs: Integers, match: Mask, usual: float) -> _Cut:
    """The one with the fewest labelled pairs wrong, where each logit away from the usual one counts as some more."""
    graph = table.graph(model)
    parts = table.parts(model, graph)
    cuts = []
    for threshold in THRESHOLDS:
        found = clusters_by(method, threshold, _untrained(table, 0), table, graph, parts)
        cuts.append(_Cut(threshold, (found[pairs[:, 0]] == found[pairs[:, 1]]) == match))
    return min(cuts, key=lambda cut: int((~cut.right).sum()) + PRICE * abs(cut.threshold - usual))


def _strength(table: Table, base: PairModel, found: Similarities, match: Floats, seed: int) -> float:
    """The strongest pull that is as good as the best on held-out labels, but for one standard error of the difference.

    So a few labels, which can tell little, change little: at most what they show beyond chance.
    """
    fold = _dealt(match, seed)
    loss = np.zeros((len(STRENGTHS), len(match)))
    for held in range(FOLDS):
        kept, out = fold != held, fold == held
        for number, strength in enumerate(STRENGTHS):
            model = _pulled(table, base, found[kept], match[kept], strength)
            logit = model.logit(table.comparer, found[out])
            loss[number, out] = -log_expit(np.where(match[out] > 0, logit, -logit))
    worse = loss - loss[loss.sum(axis=1).argmin()]
    error = worse.std(axis=1) / np.sqrt(len(match))
    return STRENGTHS[int(np.flatnonzero(worse.mean(axis=1) <= error)[-1])]


def _dealt(match: Floats, seed: int) -> Integers:
    """The fold of each label; matches and others are dealt apart, so that each fold has its share."""
    fold = np.zeros(len(match), dtype=np.int64)
    random = np.random.default_rng(seed)
    for side in (match > 0, match <= 0):
        fold[side] = random.permutation(int(side.sum())) % FOLDS
    return fold


def _pulled(table: Table, base: PairModel, found: Similarities, match: Floats, strength: float) -> PairModel:
    """The model of labelled pairs; with an infinite pull that without labels."""
    if strength == inf:
        return base
    return base.fitted(table.comparer, found, match, np.ones(len(match)), strength)


# ------------------------------------------------------------------------------------------------------ true ids


def train_on_entities(table: Table, truth: Integers, one_to_one: bool, seed: int) -> Trained:
    """All models from records whose entities are known; how clusters are made is chosen on held-out entities.

    Entities are halved; each half is resolved by models of the other. Of all ways the one with the best mean of
    B-cubed F1 and pairwise F1 is taken, average linkage if it is as good: so the model of entities is used only where
    it is better than the pairwise model with its best threshold. Thresholds of ways without a walk are then chosen on
    all records together, each pair scored by a model that has not seen it, for a larger table needs a higher one.
    """
    levels = table.levels(seed)
    if table.linking:
        table.watch_rivals(levels)
    base = PairModel.unlabelled(levels, len(table.comparer.names))
    half = np.random.default_rng(seed).permutation(int(truth.max()) + 1) % 2
    reached: Reached = {}
    models: list[PairModel] = []
    for number in (0, 1):
        learn, held = (truth >= 0) & (half[truth] == number), (truth >= 0) & (half[truth] != number)
        if learn.sum() < 2 or held.sum() < 2:
            continue
        model = _pairs_of_entities(table, base, truth, learn, seed)
        models.append(model)
        entities = _trained_entities(table, model, truth, learn, seed)
        graph = table.graph(model, held)
        parts = table.parts(model, graph)
        for way, found in _ways(table, graph, parts, one_to_one, entities, seed):
            report = Report.of(found[held], truth[held], table.side[held])
            reached.setdefault(way, []).append((report.b_cubed + report.pairwise_f1) / 2)
    known = truth >= 0
    model = _pairs_of_entities(table, base, truth, known, seed)
    method, threshold = _choice(reached, one_to_one)
    if len(models) == 2 and method not in (Method.WALK, Method.ENTITIES):
        whole = _on_all(table, models, half, truth, method)
        threshold = _choice(whole, one_to_one)[1]
    entities = _untrained(table, seed)
    if method is Method.ENTITIES:
        entities = _trained_entities(table, model, truth, known, seed)
    best: dict[str, float] = {}
    for (way, _), values in reached.items():
        best[way.value] = max(best.get(way.value, 0.0), float(np.mean(values)))
    return Trained(model, method, threshold, entities, best)


def _ways(table: Table, graph: Graph, parts: Parts, one_to_one: bool, trained: EntityModel, seed: int) -> Any:
    """All ways with their clusters; walks begin with the average linkage at three thresholds."""
    untrained = _untrained(table, seed)
    simple = (Method.MATCHED,) if one_to_one else (Method.CONNECTED, Method.AVERAGE)
    for threshold in THRESHOLDS:
        for method in simple:
            yield (method, threshold), clusters_by(method, threshold, untrained, table, graph, parts)
    if not one_to_one:
        for threshold in (-1.0, 0.0, 1.0, 2.0):
            for method, model in ((Method.WALK, untrained), (Method.ENTITIES, trained)):
                yield (method, threshold), clusters_by(method, threshold, model, table, graph, parts)


def _on_all(table: Table, models: list[PairModel], half: Integers, truth: Integers, method: Method) -> Reached:
    """What the thresholds of a way reach on all known records, pairs being scored by models that have not seen them.

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
    reached: Reached = {}
    for threshold in THRESHOLDS:
        found = clusters_by(method, threshold, entities, table, graph, parts)
        report = Report.of(found[known], truth[known], table.side[known])
        reached[method, threshold] = [(report.b_cubed + report.pairwise_f1) / 2]
    return reached


def _choice(reached: Reached, one_to_one: bool) -> tuple[Method, float]:
    if not reached:
        return (Method.MATCHED if one_to_one else Method.AVERAGE), 0.0
    mean = {way: float(np.mean(values)) for way, values in reached.items()}
    top = {method: max(value for way, value in mean.items() if way[0] is method) for method, _ in mean}
    best = next(method for method in Method if top.get(method, -1.0) >= max(top.values()) - BETTER)
    fine = sorted(way[1] for way, value in mean.items() if way[0] is best and value >= top[best] - SAME)
    return best, fine[len(fine) // 2]


def _pairs_of_entities(table: Table, base: PairModel, truth: Integers, known: Mask, seed: int) -> PairModel:
    chosen = np.flatnonzero(known[table.one] & known[table.other])
    if len(chosen) > MOST_PAIRS:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, MOST_PAIRS, replace=False))
    one, other = table.one[chosen], table.other[chosen]
    match = (truth[one] == truth[other]).astype(np.float64)
    if not 0 < match.sum() < len(match):
        return base
    return base.fitted(table.comparer, table.comparer.compute(one, other), match, np.ones(len(match)), 1.0)


def _trained_entities(table: Table, model: PairModel, truth: Integers, known: Mask, seed: int) -> EntityModel:
    parts = table.parts(model, table.graph(model, known))
    return _untrained(table, seed).trained(parts, truth, table.agreement)
