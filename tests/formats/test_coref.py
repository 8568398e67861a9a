"""Coreference files: brackets come back as they were or with other entities; what is wrong is said with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats import FormatError
from loopwise.formats.coref import Span, parse_documents, read_coref, write_coref

WORD = "{}\t{}\t{}\tNOUN\tNN\t_\t{}\tdep\t_\t{}"


def conllu(*sentences: list[tuple[str, str]], header: str = "GRP-etype-infstat") -> str:
    """Sentences of (word, Entity value); the first word of each is its root."""
    lines = ["# newdoc id = one", f"# global.Entity = {header}"]
    for words in sentences:
        for number, (form, brackets) in enumerate(words, 1):
            misc = f"A=b|Entity={brackets}|SpaceAfter=No" if brackets else "_"
            lines.append(WORD.format(number, form, form, 0 if number == 1 else 1, misc))
        lines.append("")
    return "\n".join(lines) + "\n"


TEXT = conllu(
    [("Ann", "(1-person-new)"), ("saw", ""), ("the", "(2-object-new"), ("red", ""), ("house", "2)")],
    [("Her", "(3-object-giv(1-person-giv)"), ("own", ""), ("house", "3)"), ("fell", "")],
)


def test_mentions_of_conllu() -> None:
    (document,) = parse_documents(TEXT)
    assert document.name == "one" and document.sentence_start == (0, 5, 9)
    assert document.mentions == (
        Span(0, 0, "1", "person"),
        Span(2, 4, "2", "object"),
        Span(5, 7, "3", "object"),
        Span(5, 5, "1", "person"),
    )
    assert document.entities() == [0, 1, 2, 0]
    assert [document.text(mention) for mention in document.mentions] == ["Ann", "the red house", "Her own house", "Her"]


def test_other_entities_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "in.conllu").write_text(TEXT)
    documents = read_coref(tmp_path / "in.conllu")
    write_coref(tmp_path / "same.conllu", documents)
    assert (tmp_path / "same.conllu").read_text() == TEXT
    write_coref(tmp_path / "out.conllu.gz", [documents[0].with_entities([7, 4, 4, 7])])
    (again,) = read_coref(tmp_path / "out.conllu.gz")
    assert again.entities() == [0, 1, 1, 0]
    text = gzip.decompress((tmp_path / "out.conllu.gz").read_bytes()).decode()
    assert text == TEXT.replace("(3-object-giv(1", "(2-object-giv(1").replace("3)", "2)")
    with pytest.raises(ValueError, match="4 mentions; 2 entities"):
        documents[0].with_entities([0, 1])


def test_the_header_says_where_the_group_stands() -> None:
    text = conllu([("Ann", "(person-e7-x)"), ("sang", "(event-e8-y)")], header="etype-eid-other")
    (document,) = parse_documents(text)
    assert document.mentions == (Span(0, 0, "e7", "person"), Span(1, 1, "e8", "event"))
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
    assert first.mentions == (Span(0, 2, "1"), Span(2, 2, "2"), Span(4, 4, "2"), Span(5, 7, "3"), Span(6, 8, "4"))
    assert first.sentence_start == (0, 4, 9)  # after the full stop, for the file does not say
    assert empty.mentions == () and empty.words == () and empty.with_entities([]).entities() == []
    write_coref(tmp_path / "d.conll", [first.with_entities(first.entities()), empty])
    assert (tmp_path / "d.conll").read_text() == COLUMNS
    write_coref(tmp_path / "d.conll", [first.with_entities([5, 1, 1, 1, 5])])
    (again,) = read_coref(tmp_path / "d.conll")
    assert again.entities() == [0, 1, 1, 1, 0]


def test_conll_2012(tmp_path: Path) -> None:
    def line(number: int, word: str, tag: str, speaker: str, brackets: str) -> str:
        return f"bc/x   0   {number}   {word}   {tag}   (S*)   -   -   -   {speaker}   *   {brackets}"

    text = "\n".join(
        [
            "#begin document (bc/x); part 000",
            line(0, "Ann", "NNP", "Sue", "(12|(3)"),
            line(1, "sang", "VBD", "Sue", "12)"),
            "",
            line(0, "She", "PRP", "-", "(3)"),
            line(1, "left", "VBD", "-", "-"),
            "",
            "#end document",
        ]
    )
    (tmp_path / "x").write_text(text)
    (document,) = read_coref(tmp_path / "x")
    assert document.name == "bc/x); part 000" and document.words == ("Ann", "sang", "She", "left")
    assert document.tags == ("NNP", "VBD", "PRP", "VBD") and document.speakers == ("Sue", "")
    assert document.mentions == (Span(0, 1, "12"), Span(0, 0, "3"), Span(2, 2, "3"))
    again = document.with_entities([0, 0, 1])
    assert (
        again.lines[1].endswith("   (1|(1)") and again.lines[2].endswith("   1)") and again.lines[4].endswith("   (2)")
    )


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


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# begin document a\n0\tx\t(1\n# end document\n# begin document b\n0\ty\t1)\n", 2, "end of the document"),
        ("# begin document a\n0\tx\n# end document\n", 2, "2 columns"),
        ("# begin document a\n0\tx\t_\n# end document\n1\ty\t_\n", 4, "outside of any document"),
    ],
)
def test_bad_columns(tmp_path: Path, text: str, line: int, words: str) -> None:
    (tmp_path / "bad").write_text(text)
    with pytest.raises(FormatError) as raised:
        read_coref(tmp_path / "bad")
    assert raised.value.line == line and words in raised.value.problem


GUM = Path(__file__).parents[3] / "shared" / "data" / "coref" / "gum"


@pytest.mark.skipif(not GUM.is_dir(), reason="the GUM files are not beside this checkout")
@pytest.mark.parametrize("name", ["gum-test2.conllu.gz", "ontogum-test.conll.gz"])
def test_real_files_come_back(tmp_path: Path, name: str) -> None:
    documents = read_coref(GUM / name)
    assert len(documents) > 20 and all(document.mentions for document in documents)
    write_coref(tmp_path / name, [document.with_entities(document.entities()) for document in documents])
    again = read_coref(tmp_path / name)
    assert [document.words for document in again] == [document.words for document in documents]
    for one, two in zip(again, documents, strict=True):
        assert one.entities() == two.entities()
        assert [(m.first, m.last, m.kind) for m in one.mentions] == [(m.first, m.last, m.kind) for m in two.mentions]


@st.composite
def nested_spans(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """Spans over a few words with entities, distinct as pairs of span and entity; those of one entity do not cross."""
    length = draw(st.integers(1, 7))
    spans: list[tuple[int, int, int]] = []
    for _ in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, length - 1))
        last, entity = draw(st.integers(first, length - 1)), draw(st.integers(0, 3))
        crosses = any(e == entity and (f < first <= la < last or first < f <= last < la) for f, la, e in spans)
        if (first, last, entity) not in spans and not crosses:
            spans.append((first, last, entity))
    return length, spans


@given(nested_spans())
def test_any_brackets_round_trip(given_spans: tuple[int, list[tuple[int, int, int]]]) -> None:
    """Brackets written by hand, closing ones first at each word, are read as the spans they came from."""
    length, spans = given_spans
    marks = [""] * length
    longer = [span for span in spans if span[0] < span[1]]
    for _, last, entity in sorted(longer, key=lambda span: -span[0]):
        marks[last] += f"{entity})"
    for first, _, entity in sorted(longer, key=lambda span: -span[1]):
        marks[first] += f"({entity}-x"
    for first, last, entity in spans:
        marks[first] += f"({entity}-x)" if first == last else ""
    (document,) = parse_documents(conllu([(f"w{place}", mark) for place, mark in enumerate(marks)]))
    found = sorted((mention.first, mention.last, int(mention.entity)) for mention in document.mentions)
    assert found == sorted(spans)
    again = document.with_entities(document.entities())
    assert again.entities() == document.entities()
