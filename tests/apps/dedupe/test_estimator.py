"""Resolving tables: all kinds of labels, two tables, files, and what is refused."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps import Dedupe
from loopwise.apps.dedupe import Records, Report, Resolution, made_records
from loopwise.apps.dedupe.entities import EntityModel, first_weights
from loopwise.apps.dedupe.kernels.piecewise import piecewise_scores
from loopwise.apps.dedupe.page import write_page
from loopwise.apps.dedupe.pair_model import (
    EQUAL,
    KNOTS,
    LEVELS,
    PER_COMPARISON,
    Levels,
    PairModel,
    _rising,
    estimate_levels,
    scales,
)
from loopwise.apps.dedupe.training import Method, _choice
from loopwise.formats.errors import FormatError

RECORDS, IDS = made_records(150, seed=0, noise=0.25)
TEST, TEST_IDS = made_records(150, seed=1, noise=0.25)


@pytest.fixture(scope="module")
def fitted() -> Dedupe:
    return Dedupe().fit(RECORDS, ids=IDS)


@pytest.fixture(scope="module")
def found(fitted: Dedupe) -> Resolution:
    return fitted.predict(TEST)


def test_true_ids_teach(fitted: Dedupe) -> None:
    report = fitted.evaluate(TEST, TEST_IDS)
    assert report.b_cubed > 0.95 and report.pairwise_f1 > 0.9 and report.cluster_f1 > 0.85
    assert set(fitted.training_.choices) == {"average", "connected", "entities", "walk"}
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
    assert Report.of(found.clusters, both, found.table.side).pairwise_f1 > 0.8
    side = found.table.side
    assert all(side[one] != side[two] for one, two, _ in found.links())
    with pytest.raises(ValueError, match="trained to link two tables; give both"):
        model.predict(left)


def test_equal_runs_give_equal_clusters(fitted: Dedupe, found: Resolution) -> None:
    again = Dedupe().fit(RECORDS, ids=IDS)
    np.testing.assert_array_equal(again.trained_.pairs.weights, fitted.trained_.pairs.weights)
    np.testing.assert_array_equal(again.predict(TEST).clusters, found.clusters)


def test_a_saved_model_answers_the_same(fitted: Dedupe, found: Resolution, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.loopwise")
    loaded = Dedupe.load(tmp_path / "model.loopwise")
    again = loaded.predict(TEST)
    np.testing.assert_array_equal(again.clusters, found.clusters)
    np.testing.assert_array_equal(again.confidence, found.confidence)
    loaded.save(tmp_path / "again.loopwise")
    assert (tmp_path / "again.loopwise").read_bytes() == (tmp_path / "model.loopwise").read_bytes()
    (tmp_path / "cut.loopwise").write_bytes((tmp_path / "model.loopwise").read_bytes()[:500])
    with pytest.raises(FormatError, match="cut off"):
        Dedupe.load(tmp_path / "cut.loopwise")


def test_confidences_links_and_canonical_records(found: Resolution) -> None:
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    order = found.doubtful(1000)
    lowest = [found.confidence[found.members(cluster)].min() for cluster in order]
    assert lowest == sorted(lowest)
    for one, two, probability in found.links():
        assert found.clusters[one] == found.clusters[two] and 0 <= probability <= 1
    largest = found.largest(3)
    assert largest[0].size == np.bincount(found.clusters).max()
    table = Records.of({"name": ["Ann", "Anne", "Ann", "Bo"], "age": ["", "3", "31", "4"]})
    clusters = Resolution(
        *(getattr(found, name) for name in ("table", "trained", "graph", "parts")),
        np.zeros(4, int),
        found.probability,
        (),
    )
    object.__setattr__(clusters.table, "records", table)
    try:
        assert clusters.canonical(0) == {"name": "Ann", "age": "31"}
    finally:
        object.__setattr__(found.table, "records", TEST)


def test_reasons_add_up_to_the_logit(found: Resolution) -> None:
    one, two, _ = found.links()[0]
    model = found.trained.pairs
    total = sum(reason.weight for reason in found.explain(one, two, 1000))
    total += model.weights[0] + model.weights[1] * model.levels.prior
    logit = found.table.score(model, np.array([one]), np.array([two]))[0]
    assert np.clip(total, -12, 12) == pytest.approx(logit, abs=1e-4)


def test_files_and_page(found: Resolution, tmp_path: Path) -> None:
    found.write(tmp_path / "out.csv")
    found.write_links(tmp_path / "links.csv")
    found.write_canonical(tmp_path / "one.csv")
    write_page(found, tmp_path / "page.html")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [int(row["cluster_id"]) for row in rows] == found.clusters.tolist()
    assert rows[0]["name"] == TEST.column("name")[0]
    assert len(list(csv.DictReader((tmp_path / "links.csv").open()))) == len(found.links())
    assert len(list(csv.DictReader((tmp_path / "one.csv").open()))) == found.clusters.max() + 1
    page = (tmp_path / "page.html").read_text()
    assert "http" not in page and f"{len(TEST)} records" in page and "<h2 id=" in page


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
    with pytest.raises(ValueError, match="pairs_per_record must be at least 1"):
        Dedupe(pairs_per_record=0).fit(RECORDS)
    with pytest.raises(ValueError, match="seed must not be negative"):
        Dedupe(seed=-1).fit(RECORDS)


def test_another_table_must_have_the_columns(fitted: Dedupe) -> None:
    with pytest.raises(ValueError, match="no column 'street'"):
        fitted.predict([{"name": "a"}, {"name": "b"}])


# ---------------------------------------------------------------------------------------------------- the models


def test_em_finds_the_two_kinds_of_pairs() -> None:
    random = np.random.default_rng(0)
    match = random.random(4000) < 0.1
    summary = np.where(match[:, None], random.beta(9, 1, (4000, 3)), random.beta(1.5, 4, (4000, 3))).astype(np.float32)
    summary[random.random((4000, 3)) < 0.1] = np.nan
    levels = estimate_levels(summary, summary[~match][:1000])
    assert ((levels.score(summary) > 0) == match).mean() > 0.97
    assert (np.diff(levels.factors, axis=1) >= -1e-12).all()
    assert abs(1 / (1 + np.exp(-levels.prior)) - 0.1) < 0.02


def test_factors_rise_as_isotonic_regression_has_them() -> None:
    assert _rising(np.array([[1.0, 3.0, 2.0, 0.0, 5.0]]))[0].tolist() == pytest.approx([1.0, 5 / 3, 5 / 3, 5 / 3, 5.0])


def test_the_scale_is_piecewise_linear() -> None:
    found = np.array([[0.4, np.nan, 1.0], [0.0, 0.97, 0.3]], dtype=np.float32)
    weights = np.random.default_rng(0).normal(size=(3, PER_COMPARISON))
    compiled = np.zeros(2)
    piecewise_scores(found, KNOTS, EQUAL, weights, compiled)
    np.testing.assert_allclose(compiled, scales(found) @ weights.reshape(-1), atol=1e-5)
    row = scales(found[:1]).reshape(3, -1)
    assert row[0].tolist() == pytest.approx([1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], abs=1e-6)
    assert row[1].tolist() == [0.0] * 7 + [1.0]
    assert row[2].tolist() == [1.0] * 7 + [0.0]


def test_labels_pull_the_pair_model_away_from_em(found: Resolution) -> None:
    comparer = found.table.comparer
    base = PairModel.unlabelled(Levels(np.zeros((len(comparer.columns), len(LEVELS) + 1)), 0.0), len(comparer.names))
    pairs = np.stack([found.table.one, found.table.other], axis=1)
    match = (TEST_IDS[pairs[:, 0]] == TEST_IDS[pairs[:, 1]]).astype(float)
    similar = comparer.compute(pairs[:, 0], pairs[:, 1])
    firm = base.fitted(comparer, similar, match, np.ones(len(match)), 1e6)
    loose = base.fitted(comparer, similar, match, np.ones(len(match)), 1.0)
    assert np.abs(firm.weights[1:] - base.weights[1:]).max() < 0.01
    assert ((loose.logit(comparer, similar) > 0) == (match > 0)).mean() > 0.99


def test_a_walk_undoes_wrong_clusters(found: Resolution) -> None:
    model = EntityModel.untrained(len(found.table.comparer.columns))
    assert model.weights.tolist() == first_weights(model.columns).tolist()
    alone = np.arange(len(TEST))
    better = model.improved(found.parts, alone, found.table.agreement)
    assert Report.of(better, TEST_IDS).b_cubed > Report.of(alone, TEST_IDS).b_cubed + 0.1
    blank = EntityModel(np.zeros_like(model.weights), model.columns)
    taught = blank.trained(found.parts, TEST_IDS, found.table.agreement)  # SampleRank, from nothing
    learned = taught.improved(found.parts, alone, found.table.agreement)
    assert Report.of(learned, TEST_IDS).b_cubed >= Report.of(better, TEST_IDS).b_cubed - 0.01


def test_average_linkage_is_taken_unless_another_way_is_better() -> None:
    average, entities, connected = Method.AVERAGE, Method.ENTITIES, Method.CONNECTED
    same = {(average, 0.0): [0.9, 0.9], (average, 1.0): [0.9, 0.9], (entities, 0.0): [0.901, 0.9]}
    assert _choice(same, False) == (average, 1.0)
    assert _choice({**same, (entities, 0.0): [0.95, 0.9]}, False) == (entities, 0.0)
    assert _choice({**same, (connected, 2.0): [0.95, 0.95], (entities, 0.0): [0.95, 0.95]}, False)[0] is entities
    assert _choice({}, True)[0] is Method.MATCHED


def test_reports_of_links_and_of_clusters() -> None:
    truth = np.array([0, 0, 1, 1, -1])
    assert Report.of(np.array([5, 5, 6, 6, 7]), truth).b_cubed == 1.0
    report = Report.of(np.array([0, 0, 0, 0, 0]), truth)
    assert report.precision == pytest.approx(2 / 6) and report.recall == 1.0
    links = Report.of(np.array([0, 0, 0, 0, 0]), truth, np.array([0, 1, 0, 1, 0]))
    assert links.precision == pytest.approx(2 / 4)
