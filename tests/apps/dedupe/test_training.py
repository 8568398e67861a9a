"""What labelled pairs may change: nothing that they cannot tell to be better."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import Dedupe, made_records
from loopwise.apps.dedupe.training import FOLDS, Method, _choice, _clearly, _dealt

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
    same = {(average, 0.0): [0.9, 0.9], (average, 1.0): [0.9, 0.9], (entities, 0.0): [0.901, 0.9]}
    assert _choice(same, False) == (average, 1.0)
    assert _choice({**same, (entities, 0.0): [0.95, 0.9]}, False) == (entities, 0.0)
    assert _choice({**same, (connected, 2.0): [0.95, 0.95], (entities, 0.0): [0.95, 0.95]}, False)[0] is entities
    assert _choice({}, True)[0] is Method.MATCHED
