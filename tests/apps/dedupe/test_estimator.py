"""Resolving tables: all kinds of labels, two tables, files, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwise.apps import Dedupe
from loopwise.apps.dedupe import DedupeReport, Resolution
from oracles.dedupe_cases import IDS, RECORDS, TEST, TEST_IDS


def test_true_ids_teach(fitted: Dedupe) -> None:
    report = fitted.evaluate(TEST, TEST_IDS)
    assert report.b_cubed > 0.95 and report.pairwise_f1 > 0.9 and report.cluster_f1 > 0.85
    assert set(fitted.training_.choices) == {"average", "entities", "walk"}
    assert fitted.training_.blocking.recall is not None and fitted.training_.blocking.recall > 0.97
    assert fitted.score(TEST, TEST_IDS) == report.b_cubed


def test_no_labels_and_few_labels() -> None:
    assert Dedupe().fit(RECORDS).score(RECORDS, IDS) > 0.9
    pairs = [pair for pair in itertools.combinations(range(60), 2) if IDS[pair[0]] == IDS[pair[1]]]
    others = [pair for pair in itertools.combinations(range(12), 2) if IDS[pair[0]] != IDS[pair[1]]]
    taught = Dedupe().fit(RECORDS, pairs={"match": pairs[:10], "distinct": others[:30]})
    assert taught.score(RECORDS, IDS) > 0.9
    assert taught.training_.labelled >= 40


def test_two_tables_are_linked() -> None:
    first, second = np.flatnonzero(np.arange(len(IDS)) % 2 == 0), np.flatnonzero(np.arange(len(IDS)) % 2 == 1)
    left, right = RECORDS.take(first), RECORDS.take(second)
    both = IDS[np.concatenate([first, second])]
    model = Dedupe().fit(left, other=right, ids=both)
    found = model.predict(left, other=right)
    assert DedupeReport.of(found.clusters, both, found.table.side).pairwise_f1 > 0.8
    side = found.table.side
    assert all(side[one] != side[two] for one, two, _ in found.links())
    with pytest.raises(ValueError, match="trained to link two tables; give both"):
        model.predict(left)


def test_equal_runs_give_equal_clusters(fitted: Dedupe, found: Resolution) -> None:
    again = Dedupe().fit(RECORDS, ids=IDS)
    np.testing.assert_array_equal(again.trained_.pairs.weights, fitted.trained_.pairs.weights)
    np.testing.assert_array_equal(again.predict(TEST).clusters, found.clusters)


def test_pairs_to_label_are_unsure_ones(fitted: Dedupe) -> None:
    pairs = fitted.teaching_pairs(TEST, 10)
    assert pairs.shape == (10, 2) and (pairs[:, 0] < pairs[:, 1]).all()
    assert len({tuple(pair) for pair in pairs.tolist()}) == 10
    assert Dedupe().teaching_pairs(TEST, 4).shape == (4, 2)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        Dedupe().predict(TEST)
    with pytest.raises(ValueError, match="both ids and pairs"):
        Dedupe().fit(RECORDS, ids=IDS, pairs={"match": []})
    with pytest.raises(ValueError, match="no rows"):
        Dedupe().fit([])
    with pytest.raises(ValueError, match="one record only"):
        Dedupe().fit([{"a": "x"}])
    with pytest.raises(ValueError, match="records must be a table"):
        Dedupe().fit(3)
    with pytest.raises(ValueError, match="pairs_per_record must be a whole number of at least 1"):
        Dedupe(pairs_per_record=0).fit(RECORDS)
    with pytest.raises(ValueError, match="seed must not be negative"):
        Dedupe(seed=-1).fit(RECORDS)


def test_another_table_must_have_the_columns(fitted: Dedupe) -> None:
    with pytest.raises(ValueError, match="no column 'street'"):
        fitted.predict([{"name": "a"}, {"name": "b"}])
