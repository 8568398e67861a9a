"""Brackets and columns of coreference."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwise.formats import FormatError
from loopwise.formats.coref import MentionSpan, parse_documents, read_coref, write_coref
from oracles.coref_texts import TEXT, conllu


def test_mentions_of_conllu() -> None:
    (document,) = parse_documents(TEXT)
    assert document.name == "one" and document.sentence_start == (0, 5, 9)
    assert document.mentions == (
        MentionSpan(0, 0, "1", "person"),
        MentionSpan(2, 4, "2", "object"),
        MentionSpan(5, 7, "3", "object"),
        MentionSpan(5, 5, "1", "person"),
    )
    assert document.entities() == [0, 1, 2, 0]
    assert [document.text(mention) for mention in document.mentions] == ["Ann", "the red house", "Her own house", "Her"]


def test_the_header_says_where_the_group_stands() -> None:
    text = conllu([("Ann", "(person-e7-x)"), ("sang", "(event-e8-y)")], header="etype-eid-other")
    (document,) = parse_documents(text)
    assert document.mentions == (MentionSpan(0, 0, "e7", "person"), MentionSpan(1, 1, "e8", "event"))
    again = document.with_entities([3, 3])
    assert "Entity=(person-1-x)" in again.trees[0].lines[2] and "Entity=(event-1-y)" in again.trees[0].lines[3]


COLUMNS = """\
# begin document first
0\tInsights\t(1
1\tinto\t_
2\tart\t(2)1)
3\t.\t_
4\tArt\t(2)
5\thelps\t(3
6\tall\t(4
7\tof\t3)
8\tus\t4)
# end document

# begin document empty
# end document

"""


def test_columns_with_crossing_mentions(tmp_path: Path) -> None:
    (tmp_path / "c.conll").write_text(COLUMNS)
    first, empty = read_coref(tmp_path / "c.conll")
    assert first.mentions == (
        MentionSpan(0, 2, "1"),
        MentionSpan(2, 2, "2"),
        MentionSpan(4, 4, "2"),
        MentionSpan(5, 7, "3"),
        MentionSpan(6, 8, "4"),
    )
    assert first.sentence_start == (0, 4, 9)  # after the full stop, for the file does not say
    assert empty.mentions == () and empty.words == () and empty.with_entities([]).entities() == []
    write_coref(tmp_path / "d.conll", [first.with_entities(first.entities()), empty])
    assert (tmp_path / "d.conll").read_text() == COLUMNS
    write_coref(tmp_path / "d.conll", [first.with_entities([5, 1, 1, 1, 5])])
    (again,) = read_coref(tmp_path / "d.conll")
    assert again.entities() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("sentences", "line", "words"),
    [
        ([[("a", "(1-x"), ("b", "")], [("c", "1)")]], 3, "not closed before the end of the sentence"),
        ([[("a", ""), ("b", "1)")], [("c", "(1-x")]], 4, "not opened before"),
        ([[("a", "(1-x"), ("b", "2)")]], 4, "2) closes"),
        ([[("a", "(1-x(1-y"), ("b", "1)1)")]], 4, "each inside the other"),
        ([[("a", "(1-x)(1-y)")]], 3, "each inside the other"),
        ([[("a", "1")]], 3, "no sequence of brackets"),
        ([[("a", "(1-x)(2")]], 3, "not closed"),
        ([[("a", "((1-x)")]], 3, "no sequence of brackets"),
        ([[("a", "(1[1/2]-x)")]], 3, "several parts"),
        ([[("a", "(-x)")]], 3, "names no entity"),
    ],
)
def test_bad_brackets(sentences: list[list[tuple[str, str]]], line: int, words: str) -> None:
    with pytest.raises(FormatError, match=r"file\.conllu") as raised:
        list(parse_documents(conllu(*sentences), "file.conllu"))
    assert raised.value.line == line and words in raised.value.problem


LOST = """\
# begin document road
0\tsorry\t(2
1\tI\t(3)
2\tboth\t(1)
3\t,\t3)
4\tI\t(3)
# end document
# begin document whole
0\tAnn\t(1)
# end document
"""


def test_brackets_without_a_partner_are_passed_over_and_named(tmp_path: Path) -> None:
    (tmp_path / "lost").write_text(LOST)
    with pytest.raises(FormatError, match="line 5: the bracket 3\\) closes"):
        read_coref(tmp_path / "lost")
    with pytest.warns(UserWarning, match="2 brackets have no partner.*line 5.*in road.*line 2.*not closed"):
        road, whole = read_coref(tmp_path / "lost", skip_bad=True)
    assert [(span.first, span.last, span.entity) for span in road.mentions] == [(1, 1, "3"), (2, 2, "1"), (4, 4, "3")]
    assert [span.entity for span in whole.mentions] == ["1"]
    write_coref(tmp_path / "again", [road, whole])
    assert (tmp_path / "again").read_text() == LOST, "lines stay as they were"
    other = road.with_entities([0, 0, 0])
    assert [line.rsplit("\t")[-1] for line in other.lines[1:6]] == ["_", "(1)", "(1)", "_", "(1)"]


def test_a_mention_across_sentences_of_trees_is_passed_over() -> None:
    text = conllu([("Ann", "(1-person"), ("sang", "(2-event)")])
    with pytest.raises(FormatError, match="end of the sentence"):
        list(parse_documents(text))
    damaged: list[FormatError] = []
    (document,) = parse_documents(text, damaged=damaged)
    assert [span.entity for span in document.mentions] == ["2"] and len(damaged) == 1
    again = document.with_entities([0]).trees[0]
    assert "Entity" not in again.words[0][-1] and "Entity=(1-event)" in again.words[1][-1]
