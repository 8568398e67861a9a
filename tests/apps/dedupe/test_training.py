"""What labelled pairs may change: nothing that they cannot tell to be better."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import Dedupe, made_records
from loopwise.apps.dedupe.training import FOLDS, Method, Way, _choice, _clearly, _dealt

RECORDS, IDS = made_records(80, seed=3)


@pytest.mark.parametrize(
    ("won", "lost", "clear"), [(0, 0, False), (2, 0, False), (3, 0, True), (7, 2, True), (6, 3, False)]
)
def test_a_sign_test(won: int, lost: int, clear: bool) -> None:
    """Three of three are beyond one in twenty by the normal approximation, two of two and six of nine are not."""
    ours = np.array([True] * won + [False] * lost + [True, False])
    theirs = np.array([False] * won + [True] * lost + [True, False])
    assert _clearly(ours, theirs) is clear


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


def test_average_linkage_is_taken_unless_another_way_is_better() -> None:
    average, entities, connected = Method.AVERAGE, Method.ENTITIES, Method.CONNECTED
    same = {Way(average, 0.0): [0.9, 0.9], Way(average, 1.0): [0.9, 0.9], Way(entities, 0.0): [0.901, 0.9]}
    assert _choice(same, False) == Way(average, 1.0)
    assert _choice({**same, Way(entities, 0.0): [0.95, 0.9]}, False) == Way(entities, 0.0)
    both = {**same, Way(connected, 2.0): [0.95, 0.95], Way(entities, 0.0): [0.95, 0.95]}
    assert _choice(both, False).method is entities
    assert _choice({**both, Way(entities, 3.0, connected): [0.96, 0.96]}, False) == Way(entities, 3.0, connected)
    assert _choice({}, True).method is Method.MATCHED


@pytest.mark.parametrize("method", ["average", "connected", "walk", "entities"])
def test_a_way_may_be_asked_for(method: str) -> None:
    """It is taken, works, and is kept in the file's terms; ways that are not needed are not tried."""
    model = Dedupe(method=method).fit(RECORDS, ids=IDS)
    assert model.trained_.method.value == method and method in model.training_.choices
    assert ("entities" in model.training_.choices) == (method in ("walk", "entities"))
    assert model.score(*made_records(80, seed=4)) > 0.9


@pytest.mark.parametrize(
    ("method", "told", "words"),
    [("entities", {}, "give ids"), ("best", {"ids": IDS}, "must be one of"), ("one-to-one", {}, "between two tables")],
)
def test_a_way_that_cannot_be_is_named(method: str, told: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Dedupe(method=method).fit(RECORDS, **told)


def test_walks_begin_at_the_best_linkage() -> None:
    """Both starts are tried; what is reached stands in the choices, and no way that was chosen is below average."""
    choices = Dedupe().fit(RECORDS, ids=IDS).training_.choices
    assert set(choices) == {"average", "connected", "walk", "entities"}
    chosen = Dedupe().fit(RECORDS, ids=IDS).trained_.method.value
    assert choices[chosen] >= choices["average"] - 0.002
