"""Candidate pairs: each predicate against its definition, the choice of predicates, and clusters of scored pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwise.apps.dedupe.blocking import Blocker, Blocks, Predicate
from loopwise.apps.dedupe.compare import ALL, Comparer
from loopwise.apps.dedupe.kinds import Kind
from loopwise.apps.dedupe.records import Records
from loopwise.apps.dedupe.synthetic import made_records

NAMES = ["robert smith", "rupert smith", "ann lee", "ann  lee", "lee ann", "", "bob 12"]


def blocker(values: list[str], kind: Kind = Kind.NAME, side: np.ndarray | None = None) -> Blocker:
    return Blocker(Comparer(Records.of({"c": values}), {"c": kind}), side)


def pairs(made: Blocker, column: str, what: str) -> set[tuple[int, int]]:
    codes = made.blocks(Predicate(column, what)).listed(made.side)
    return {divmod(code, made.comparer.size) for code in codes.tolist()}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("value", {(2, 3)}),
        ("word", {(0, 1), (2, 3), (2, 4), (3, 4)}),
        ("sound", {(0, 1), (2, 3), (2, 4), (3, 4)}),
        ("letters", {(2, 3)}),
        ("three letters", {(2, 3)}),
        ("two words", {(2, 3)}),
        ("word with digits", set()),
    ],
)
def test_records_with_a_key_in_common(what: str, expected: set[tuple[int, int]]) -> None:
    assert pairs(blocker(NAMES), "c", what) == expected


def test_large_blocks_keep_neighbours_only() -> None:
    members = np.arange(10)
    assert Blocks(np.array([0, 10]), members, 10).pairs == 45
    few = Blocks(np.array([0, 10]), members, 9)
    listed = few.listed(np.full(10, -1))
    assert few.pairs == len(listed) == 9 + 8 + 7
    assert all(high - low <= 3 for low, high in (divmod(code, 10) for code in listed.tolist()))
    assert len(Blocks(np.array([0, 10]), members, 10).listed(members % 2)) == 25


def test_min_hash_finds_equal_sets_and_hardly_any_others() -> None:
    words = [f"a{n} b{n} c{n} d{n} e{n}" for n in range(30)]
    swapped = [" ".join(reversed(text.split())) for text in words]
    found = pairs(blocker(words + swapped, Kind.TEXT), ALL, "MinHash")
    assert {(n, n + 30) for n in range(30)} <= found and len(found) < 40


def test_nearest_across_two_tables() -> None:
    side = np.array([0, 0, 1, 1])
    found = pairs(blocker(["red fox", "blue whale", "a red fox", "the whale"], Kind.TEXT, side), ALL, "nearest")
    assert {(0, 2), (1, 3)} <= found and not any(side[a] == side[b] for a, b in found)


def test_predicates_are_chosen_for_the_labelled_matches() -> None:
    records, ids = made_records(200, seed=3)
    kinds = {"name": Kind.NAME, "street": Kind.PLACE, "city": Kind.PLACE, "born": Kind.DATE, "phone": Kind.PHONE}
    made = Blocker(Comparer(records, kinds))
    matches = np.array([(a, b) for a, b in itertools.combinations(range(len(ids)), 2) if ids[a] == ids[b]])
    chosen, codes = made.choose(matches, 20 * len(ids))
    report = made.coverage(chosen, codes, matches)
    assert report.recall is not None and report.recall > 0.98 and report.pairs <= 20 * len(ids)
    few, codes = made.choose(matches, 1)  # never less than the nearest records
    assert [each.what for each in few] == ["nearest"]
    none = made.coverage(few, np.zeros(0, dtype=np.int64), matches)
    assert none.recall == 0.0 and none.missed[0] == tuple(matches[0])
    assert made.coverage(few, codes, np.zeros((0, 2))).recall is None


def test_labels_change_the_predicates_only_where_these_miss_clearly_more_matches() -> None:
    """Matches that are kept anyway, and two that are not, leave the candidates as they are; three do not."""
    records, ids = made_records(200, seed=3)
    kinds = {"name": Kind.NAME, "street": Kind.PLACE, "city": Kind.PLACE, "born": Kind.DATE, "phone": Kind.PHONE}
    made, most = Blocker(Comparer(records, kinds)), 200 * len(ids)
    usual, codes = made.choose(np.zeros((0, 2), dtype=np.int64), most)
    kept = np.stack(np.divmod(codes, len(ids)), axis=1)
    listed = made.blocks(Predicate("street", "word")).listed(made.side)
    missed = np.stack(np.divmod(np.setdiff1d(listed, codes), len(ids)), axis=1)
    assert len(missed) >= 3 and Predicate("street", "word") not in usual
    for few in (kept[::50], missed[:2], np.concatenate([kept[:9], missed[:2]])):
        chosen, same = made.choose(few, most)
        assert chosen == usual and np.array_equal(same, codes)
    chosen, other = made.choose(missed[:3], most)
    assert chosen != usual and made.coverage(chosen, other, missed[:3]).recall == 1.0
