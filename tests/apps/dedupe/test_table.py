"""A table ready to be resolved: candidate pairs, their scores, components."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import made_records
from loopwise.apps.dedupe.kinds import kinds_of
from loopwise.apps.dedupe.pair_model import PairModel
from loopwise.apps.dedupe.table import CandidateTable
from loopwise.decode.scored_pairs import DOUBT

RECORDS, IDS = made_records(90, seed=7)
NONE = np.zeros((0, 2), dtype=np.int64)


def made(side: np.ndarray | None = None) -> CandidateTable:
    return CandidateTable.of(RECORDS, kinds_of(RECORDS, {}), side, 20, NONE)


def test_each_candidate_pair_stands_once() -> None:
    table = made()
    assert (table.one < table.other).all() and not table.linking
    assert len(set(zip(table.one.tolist(), table.other.tolist(), strict=True))) == len(table.one)
    first, second = np.triu_indices(len(IDS), 1)
    matches = np.stack([first, second], axis=1)[IDS[first] == IDS[second]]
    coverage = table.coverage(matches)
    kept = {(one, other) for one, other in zip(table.one.tolist(), table.other.tolist(), strict=True)}
    assert coverage.recall == pytest.approx(np.mean([tuple(pair) in kept for pair in matches.tolist()]))


def test_between_two_tables_pairs_have_an_end_in_each() -> None:
    side = np.arange(len(IDS)) % 2
    table = made(side)
    assert table.linking and (side[table.one] != side[table.other]).all()
    table.watch_rivals(table.levels(0))
    assert table.comparer.rivals is not None


def test_scores_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    model = PairModel.unlabelled(table.levels(0), len(table.comparer.names))
    whole, alike = table.score(model, table.one, table.other), table.agreement(table.one, table.other)
    monkeypatch.setattr("loopwise.apps.dedupe.table.CHUNK", 7)
    assert np.array_equal(table.score(model, table.one, table.other), whole)
    assert np.array_equal(table.agreement(table.one, table.other), alike, equal_nan=True)
    assert alike.shape == (len(table.one), len(table.comparer.columns))


def test_a_graph_of_some_records_and_its_parts() -> None:
    table = made()
    model = PairModel.unlabelled(table.levels(0), len(table.comparer.names))
    among = np.arange(len(IDS)) < 60
    graph = table.graph(model, among)
    assert among[graph.one].all() and among[graph.other].all() and (graph.logit >= 2 * DOUBT).all()
    parts = table.parts(model, graph)
    assert among[parts.records].all() and len(np.unique(parts.records)) == len(parts.records)
    for part in range(len(parts)):
        size = parts.starts[part + 1] - parts.starts[part]
        pairs = parts.pair_starts[part + 1] - parts.pair_starts[part]
        assert size >= 2 and pairs == size * (size - 1) // 2, "components are closed"
