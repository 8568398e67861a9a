"""Labels as people have them, and what is wrong with some."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loopwise.apps.dedupe.labels import Labels, answer_of, clearly_more, labels_of, names_of
from loopwise.apps.dedupe.records import Records
from loopwise.formats.errors import FormatError

TABLE = Records.of({"key": ["a", "b", "c", "d"], "name": ["Ann", "Anne", "Bob", ""], "n": ["1", "2", "3", "4"]})
KEYS = names_of(TABLE, "key")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_pairs_of_a_csv_file(tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.csv", "id_1,id_2,label\nb,a,match\nb,c,distinct\nc,d,unsure\n")
    found = labels_of(file, TABLE, KEYS)
    assert found.matches.tolist() == [[0, 1]] and found.distinct.tolist() == [[1, 2]] and found.count == 2
    named = write(tmp_path / "named.csv", "a,other,match\nb,a,yes\n")  # names of columns all the same
    assert labels_of(named, TABLE, KEYS).matches.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id_1,id_2,label\na,z,match\n", "line 2: no record has the id 'z'"),
        ("id_1,id_2,label\na,b,perhaps\n", "line 2: 'perhaps' is no answer"),
        ("id_1,id_2,label\na,a,match\n", "line 2: record 'a' is paired with itself"),
        ("id_1,id_2\na,b\n", "labels need three columns"),
        ("b,a,match\nb,c,distinct\n", "line 1: a pair stands where the columns are named"),
        ("", "the file is empty"),
    ],
)
def test_bad_csv_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        labels_of(write(tmp_path / "pairs.csv", text), TABLE, KEYS)


def test_pairs_as_the_dedupe_library_writes_them(tmp_path: Path) -> None:
    ann, anne, bob = ({"name": name, "n": n} for name, n in (("ann", "1"), ("anne", "2"), ("bob", "3")))
    tuples = [{"__class__": "tuple", "__value__": [ann, anne]}]
    file = write(tmp_path / "training.json", json.dumps({"match": tuples, "distinct": [[ann, bob]]}))
    found = labels_of(file, TABLE, KEYS)
    assert found.matches.tolist() == [[0, 1]] and found.distinct.tolist() == [[0, 2]]
    by_row = labels_of({"match": np.array([(0, 1)]), "distinct": [("a", "c")], "unsure": [(2, 3)]}, TABLE, KEYS)
    assert by_row.matches.tolist() == found.matches.tolist() and by_row.distinct.tolist() == found.distinct.tolist()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"match": [[{"name": "Zoe"}, {"name": "Ann"}]]}, "no record of the table reads 'zoe'"),
        ({"match": [[{"other": "Zoe"}, {"name": "Ann"}]]}, "has none of the columns"),
        ({"match": [["a"]]}, "must be a pair"),
        ({"match": 5}, "match must be a list of pairs, not '5'"),
        ({"match": [], "distnct": []}, "labels must be"),
        ({"match": [[0, 9]]}, "row 9 is not there"),
        ({"pairs": []}, "labels must be"),
        ([], "labels must be a file"),
    ],
)
def test_bad_labels_are_named(told: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        labels_of(told, TABLE, KEYS)


def test_bad_json_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="line 2: this is no JSON"):
        labels_of(write(tmp_path / "x.json", '{"match":\n oops}'), TABLE, KEYS)
    with pytest.raises(ValueError, match="row 7"):
        labels_of(Labels.of([(0, 7)], []), TABLE, KEYS)


def test_matches_that_follow_are_added_and_contradictions_named() -> None:
    assert Labels.of([(0, 1), (1, 2)], []).matches.tolist() == [[0, 1], [0, 2], [1, 2]]
    with pytest.raises(ValueError, match=r"'a' = 'b' = 'c' by matches, but 'a' and 'c' are said to be distinct"):
        Labels.of([(0, 1), (1, 2)], [(2, 0)], KEYS)
    with pytest.raises(ValueError, match="'0' and '1' are said to match and to be distinct"):
        Labels.of([(0, 1)], [(1, 0)])


def test_words_for_answers() -> None:
    assert [answer_of(word) for word in ("Yes", "0", "?", "maybe")] == ["match", "distinct", "unsure", None]


@pytest.mark.parametrize(
    ("won", "lost", "clear"), [(0, 0, False), (2, 0, False), (3, 0, True), (7, 2, True), (6, 3, False)]
)
def test_a_sign_test(won: int, lost: int, clear: bool) -> None:
    """Three of three are beyond one in twenty by the normal approximation, two of two and six of nine are not."""
    ours = np.array([True] * won + [False] * lost + [True, False])
    theirs = np.array([False] * won + [True] * lost + [True, False])
    assert clearly_more(ours, theirs) is clear


def test_equal_records_are_two_rows(tmp_path: Path) -> None:
    table = Records.of({"name": ["Ann Lee", "Bob Ray", "ann lee"]})
    found = labels_of({"match": [({"name": "Ann Lee"}, {"name": "ANN LEE"})]}, table, names_of(table, None))
    assert found.matches.tolist() == [[0, 2]]
    with pytest.raises(ValueError, match="record '1' is paired with itself"):
        labels_of({"match": [({"name": "Bob Ray"}, {"name": "Bob Ray"})]}, table, names_of(table, None))


def test_ids_of_two_tables_may_be_the_same(tmp_path: Path) -> None:
    both = Records.of({"key": ["1", "2", "1", "2"], "name": ["Ann", "Bob", "Bob", "Ann"]})
    side = np.array([0, 0, 1, 1])
    names = names_of(both, "key", side)
    file = write(tmp_path / "pairs.csv", "a,b,label\n1,2,match\n1,1,distinct\n")
    found = labels_of(file, both, names, side)
    assert found.matches.tolist() == [[0, 3]] and found.distinct.tolist() == [[0, 2]]
    by_content = labels_of({"match": [({"name": "Bob"}, {"name": "Bob"})]}, both, names, side)
    assert by_content.matches.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="'1' in column 'key' of the table is that of rows 0 and 2"):
        names_of(both, "key")


def test_long_chains_of_matches_are_not_listed_in_full() -> None:
    chain = [(row, row + 1) for row in range(1200)]
    found = Labels.of(chain, []).matches
    assert len(found) == 1000 * 999 // 2 + 201 and [1199, 1200] in found.tolist()


def test_what_is_said_twice_counts_once() -> None:
    found = Labels.of([(0, 1), (1, 0)], [(5, 4), (2, 3), (3, 2)])
    assert found.count == 3 and found.distinct.tolist() == [[4, 5], [2, 3]]
    assert Labels.of([], []).count == 0
    with pytest.raises(ValueError, match="record '2' is paired with itself"):
        Labels.of([], [(2, 2)])
