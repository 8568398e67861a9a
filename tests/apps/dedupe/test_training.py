"""What labelled pairs may change: nothing that they cannot tell to be better."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import Dedupe, Resolution, made_records
from loopwise.apps.dedupe.compare import Comparer
from loopwise.apps.dedupe.entities import EntityModel
from loopwise.apps.dedupe.kinds import kinds_of
from loopwise.apps.dedupe.pair_model import PairModel
from loopwise.apps.dedupe.table import CandidateTable
from loopwise.apps.dedupe.training import (
    ENTITY_STRENGTHS,
    FOLDS,
    JOIN,
    STRENGTH,
    WALKS,
    Method,
    Way,
    _allowed,
    _choice,
    _dealt,
    _of_whole_table,
    _samples,
    _settled,
    _strength,
    _TruePairs,
    clusters_by,
    train_without,
)

RECORDS, IDS = made_records(80, seed=3)


def test_folds_have_their_share_of_matches() -> None:
    match = np.array([1.0] * 7 + [0.0] * 13)
    fold = _dealt(match, 0)
    for held in range(FOLDS):
        assert 1 <= match[fold == held].sum() <= 2 and 2 <= (1 - match[fold == held]).sum() <= 3


def test_a_few_labels_that_show_nothing_change_nothing() -> None:
    """Labels that agree with what is found without them leave the answer as it is."""
    alone = Dedupe().fit(RECORDS).predict(RECORDS)
    found = alone.clusters
    first = {cluster: row for row, cluster in reversed(list(enumerate(found.tolist())))}
    match = [(first[cluster], row) for row, cluster in enumerate(found.tolist()) if first[cluster] != row][:4]
    distinct = [(row, row + 1) for row in range(len(found) - 1) if found[row] != found[row + 1]][:4]
    taught = Dedupe().fit(RECORDS, pairs={"match": match, "distinct": distinct}).predict(RECORDS)
    assert np.array_equal(taught.clusters, found) and np.allclose(taught.confidence, alone.confidence)


def test_few_labels_pull_as_hard_as_is_usual() -> None:
    """One label a fold tells next to nothing of the pull; many that go by one comparison alone do."""
    comparer, base = _compared()
    one, other = np.random.default_rng(0).integers(0, len(RECORDS), (2, 400))
    found = comparer.compute(one, other)
    alike = found[:, comparer.of("name")[0]]
    match = (alike > np.nanmedian(alike)).astype(float)
    assert _strength(base, comparer, found[:6], np.array([0.0, 1.0] * 3), 0) == STRENGTH
    assert _strength(base, comparer, found, match, 0) < STRENGTH


def _compared() -> tuple[Comparer, PairModel]:
    made = CandidateTable.of(RECORDS, kinds_of(RECORDS, {}), None, 20, np.zeros((0, 2), dtype=np.int64))
    return made.comparer, train_without(made, 0).pairs


def test_average_linkage_is_taken_unless_another_way_is_better() -> None:
    average, entities, walk = Method.AVERAGE, Method.ENTITIES, Method.WALK
    same = {Way(average, 0.0): [0.9, 0.9], Way(average, 1.0): [0.9, 0.9], Way(entities, 0.0): [0.901, 0.9]}
    assert _choice(same, False) == Way(average, 1.0)
    assert _choice({**same, Way(entities, 0.0): [0.95, 0.9]}, False) == Way(entities, 0.0)
    both = {**same, Way(walk, 0.0): [0.95, 0.95], Way(entities, 0.0): [0.95, 0.95]}
    assert _choice(both, False).method is entities
    assert _choice({}, True).method is Method.MATCHED


def test_thresholds_settle_near_the_usual_one_unless_they_are_worse() -> None:
    """By more than a standard error of the difference over samples of the entities."""
    at = {threshold: Way(Method.AVERAGE, threshold) for threshold in (-1.0, 0.0, 2.0)}
    reached = {at[-1.0]: [0.7, 0.7, 0.7], at[0.0]: [0.93, 0.95, 0.91], at[2.0]: [0.95, 0.95, 0.95]}
    assert _settled(reached, 0.0) == at[0.0] and _settled(reached, 3.0) == at[2.0]
    surely_worse = {**reached, at[0.0]: [0.9, 0.92, 0.88]}
    assert _settled(surely_worse, 0.0) == at[2.0]
    joined = at[0.0]._replace(join=JOIN)
    assert _settled({**reached, joined: [0.929, 0.9, 0.88]}, 0.0) == joined
    assert _settled({**reached, joined: [0.92, 0.95, 0.9]}, 0.0) == at[0.0]


def test_thresholds_are_those_of_the_whole_table() -> None:
    """Of average linkage the one that is settled, of connected components the best, far from even odds as it may be; a
    walk has that of the linkage at which it begins."""
    average, connected = Way(Method.AVERAGE, 0.0), Way(Method.CONNECTED, 4.0)
    chained = connected._replace(threshold=0.0)

    def on_all(method: Method) -> dict[Way, list[float]]:
        of_connected = {connected: [0.95, 0.99, 0.91], chained: [0.94, 0.98, 0.9]}
        return {average: [0.9] * 3} if method is Method.AVERAGE else of_connected

    assert _of_whole_table(Way(Method.CONNECTED, 1.0), on_all, 0.0) == connected
    assert _of_whole_table(Way(Method.AVERAGE, 1.0), on_all, 0.0) == average
    assert _of_whole_table(Way(Method.WALK, 1.0), on_all, 0.0) == Way(Method.WALK, 0.0)


def test_samples_are_halves_of_the_known_entities() -> None:
    truth = np.array([0, 0, 1, 2, 3, -1])
    for sample in _samples(truth):
        assert not sample[-1] and sample[0] == sample[1]
        assert len(np.unique(truth[sample])) == 2


def test_each_record_counts_the_same_in_the_loss() -> None:
    """However large its entity is; matches and others weigh as much as there are of them."""
    truth = np.repeat([0, 1, 2, 3], [40, 4, 3, 2])
    records, _ = made_records(80, seed=3)
    table = CandidateTable.of(
        records.take(np.arange(len(truth))), kinds_of(records, {}), None, 1000, np.zeros((0, 2), dtype=np.int64)
    )
    pairs = _TruePairs.of(table, truth, truth >= 0, 0)
    one, other = table.one, table.other
    for side in (pairs.match > 0, pairs.match <= 0):
        assert pairs.evenly[side].sum() == pytest.approx(side.sum())
    match = pairs.match > 0
    count = np.bincount(one[match], minlength=len(truth)) + np.bincount(other[match], minlength=len(truth))
    for side in (one, other):
        assert np.bincount(side[match], minlength=len(truth)).sum() == match.sum()
    share = 1.0 / count[one[match]] + 1.0 / count[other[match]]
    assert np.allclose(pairs.evenly[match] / share, (pairs.evenly[match] / share)[0])
    large = truth[one[match]] == 0
    assert pairs.evenly[match][large].mean() < 0.3 * pairs.evenly[match][~large].mean()


def test_ids_pull_towards_the_model_without_labels() -> None:
    model = Dedupe(method="average").fit(RECORDS, ids=IDS)
    assert model.training_.pull in ENTITY_STRENGTHS and model.trained_.way.join == JOIN


@pytest.mark.parametrize("method", ["average", "connected", "walk", "entities"])
def test_a_way_may_be_asked_for(method: str) -> None:
    """It is taken, works, and is kept in the file's terms; ways that are not needed are not tried. The model of
    entities stays at the linkage where that is as good."""
    model = Dedupe(method=method).fit(RECORDS, ids=IDS)
    choices, chosen = model.training_.choices, model.trained_.method.value
    assert method in choices
    if method == "entities":
        assert _allowed(Method(chosen), Method.ENTITIES) and choices[chosen] >= choices["average"] - 0.002
        assert chosen == "entities" or choices["entities"] <= choices[chosen] + 0.002
    else:
        assert chosen == method
    assert ("entities" in model.training_.choices) == (method in ("walk", "entities"))
    assert model.score(*made_records(80, seed=4)) > 0.9


@pytest.mark.parametrize(
    ("method", "told", "words"),
    [("entities", {}, "give ids"), ("best", {"ids": IDS}, "must be one of"), ("one-to-one", {}, "between two tables")],
)
def test_a_way_that_cannot_be_is_named(method: str, told: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Dedupe(method=method).fit(RECORDS, **told)


def test_walks_begin_at_average_linkage() -> None:
    """What is reached stands in the choices, and no way that was chosen is below average."""
    choices = Dedupe().fit(RECORDS, ids=IDS).training_.choices
    assert set(choices) == {"average", "walk", "entities"}
    chosen = Dedupe().fit(RECORDS, ids=IDS).trained_.method.value
    assert choices[chosen] >= choices["average"] - 0.002


def test_the_model_of_entities_may_stay_at_a_linkage() -> None:
    assert {method for method in Method if _allowed(method, Method.ENTITIES)} == set(Method) - {Method.WALK}
    assert {method for method in Method if _allowed(method, Method.WALK)} == {Method.WALK}
    assert all(_allowed(method, None) for method in Method)


@pytest.mark.parametrize("method", WALKS)
def test_a_walk_counts_logits_from_the_threshold_of_its_start(found: Resolution, method: Method) -> None:
    """Where no pair is above it, the linkage joins nothing, nor does the walk that begins there; from connected
    components, whose threshold is about best pairs, it joins what speaks for it."""
    model = EntityModel.untrained(len(found.table.comparer.columns))
    alone = np.arange(len(found.clusters))
    high = clusters_by(Way(method, 20.0), model, found.table, found.graph, found.parts)
    assert np.array_equal(high, alone)
    connected = Way(method, 20.0, Method.CONNECTED)
    assert (Way(method, 20.0).zero, connected.zero) == (20.0, 0.0)
    assert len(np.unique(clusters_by(connected, model, found.table, found.graph, found.parts))) < 0.9 * len(alone)
