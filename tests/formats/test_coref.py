"""Coreference files: brackets come back as they were or with other entities; what is wrong is said with its line."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats import FormatError
from loopwise.formats.coref import MentionSpan, parse_documents, read_coref, write_coref, write_entities
from loopwise.notices import DataWarning
from oracles.coref_texts import TEXT, conllu


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
    assert document.mentions == (MentionSpan(0, 1, "12"), MentionSpan(0, 0, "3"), MentionSpan(2, 2, "3"))
    again = document.with_entities([0, 0, 1])
    assert (
        again.lines[1].endswith("   (1|(1)") and again.lines[2].endswith("   1)") and again.lines[4].endswith("   (2)")
    )


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


# --------------------------------------------------------------------------------------- odd characters, exact copies


@pytest.mark.parametrize("space", ["\xa0", "\x0b", "\x0c", "\u2028", "\u2003", "\x85", "\x1c", "\u3000"])
@pytest.mark.parametrize("between", ["\t", "  "])
def test_only_tabs_and_spaces_separate_columns(tmp_path: Path, space: str, between: str) -> None:
    rows = [["0", f"10{space}000", "(1"], ["1", f"{space}men", "1)"], ["2", f"{space}", "(2)"], ["3", "left", "_"]]
    text = "# begin document x\n" + "".join(between.join(row) + "\n" for row in rows) + "# end document\n"
    (tmp_path / "in").write_bytes(text.encode())
    (document,) = read_coref(tmp_path / "in")
    assert document.words == (f"10{space}000", f"{space}men", space, "left")
    assert document.mentions == (MentionSpan(0, 1, "1"), MentionSpan(2, 2, "2"))
    write_coref(tmp_path / "out", [document.with_entities([5, 5])])
    assert (tmp_path / "out").read_bytes().decode() == text.replace("(2)", "(1)")
    broken = text.replace("(1", f"(1{space}", 1)
    (tmp_path / "in").write_bytes(broken.encode())
    with pytest.raises(FormatError, match="line 3") as problem:
        read_coref(tmp_path / "in")
    assert "not opened" in str(problem.value)  # the character is part of the entity's name


@pytest.mark.parametrize("after", ["", "\n", "\n\n\n", "# a note\n\n"])
@pytest.mark.parametrize("end", ["# end document\n", ""])
@pytest.mark.parametrize("before", ["", "# made by hand\n\n"])
def test_every_line_comes_back_once(tmp_path: Path, before: str, end: str, after: str) -> None:
    document = "# begin document {}\n0\tAnn\t(1)\n1\tsang\t_\n\n2\tShe\t(1)  \n" + end + after
    text = before + document.format("one") + document.format("two")
    for trip in ("first", "second"):
        (tmp_path / trip).write_text(text)
        documents = read_coref(tmp_path / trip)
        assert [each.name for each in documents] == ["one", "two"]
        assert [len(each.mentions) for each in documents] == [2, 2]
        write_coref(tmp_path / "out", [each.with_entities([0, 0]) for each in documents])
        assert (tmp_path / "out").read_text() == text


@pytest.mark.parametrize("header", ["conllu", "columns"])
def test_entities_that_no_file_can_show(tmp_path: Path, header: str) -> None:
    crossing = [("a", "(1-x"), ("b", "(2-y"), ("c", "1)"), ("d", "2)"), ("e", "(3-z)(4-x)")]
    if header == "conllu":
        text = conllu(crossing)
    else:
        text = "# begin document x\n"
        text += "".join(f"{number}\t{word}\t{marks}\n" for number, (word, marks) in enumerate(crossing))
        text = text.replace("-x", "").replace("-y", "").replace("-z", "")
    (tmp_path / "in").write_text(text)
    (document,) = read_coref(tmp_path / "in")
    assert [(span.first, span.last) for span in document.mentions] == [(0, 2), (1, 3), (4, 4), (4, 4)]
    assert document.unwritable([0, 0, 1, 1]) == [1, 3] and document.unwritable([0, 1, 0, 1]) == []
    with pytest.raises(ValueError, match=r"the mention 'b c d' \(words 1 to 3\) crosses another"):
        document.with_entities([0, 0, 1, 2])
    with pytest.warns(DataWarning, match="^2 mentions cross another"):
        write_entities(tmp_path / "out", [document], [[0, 0, 1, 1]])
    (again,) = read_coref(tmp_path / "out")
    assert [(span.first, span.last) for span in again.mentions] == [(0, 2), (1, 3), (4, 4), (4, 4)]
    assert again.entities() == [0, 1, 2, 3]


def test_two_lists_of_entities_at_one_word() -> None:
    text = conllu([("Ann", "(1-person-new)|Entity=(2-object-new"), ("sang", "2)")])
    (document,) = parse_documents(text)
    (again,) = parse_documents("\n".join(document.with_entities([0, 1]).trees[0].lines))
    assert again.mentions == (MentionSpan(0, 1, "1", "object"), MentionSpan(0, 0, "2", "person"))


SPANS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted).map(tuple), unique=True, max_size=8)


@given(SPANS, st.lists(st.integers(0, 2), min_size=8, max_size=8), st.booleans(), st.randoms(use_true_random=False))
def test_any_entities_come_back_or_are_refused(
    spans: list[tuple[int, int]], entities: list[int], bars: bool, random: Random
) -> None:
    """Brackets at a word in any order that can be read: what is written reads back as the same mentions."""
    marks: dict[int, list[tuple[int, str]]] = {word: [] for word in range(6)}
    for number, (first, last) in enumerate(spans):
        if first == last:
            marks[first].append((1, f"({number})"))
        else:
            marks[first].append((2, f"({number}"))
            marks[last].append((0, f"{number})"))
    for row in marks.values():
        random.shuffle(row)
        if not bars:  # a bracket that closes cannot follow one that opens without a bar
            row.sort(key=lambda mark: mark[0])
    lines = [
        f"{word}\tw{word}\t{('|' if bars else '').join(text for _, text in row) or '_'}" for word, row in marks.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_text("\n".join(["# begin document x", *lines, ""]))
        (document,) = read_coref(path)
        wanted = {(span.first, span.last): entities[number] for number, span in enumerate(document.mentions)}
        assert sorted(wanted) == sorted(spans)
        given_entities = [wanted[span.first, span.last] for span in document.mentions]
        refused = document.unwritable(given_entities)
        ends = [(span.first, span.last, entity) for span, entity in zip(document.mentions, given_entities, strict=True)]
        crosses = any(a < c < b < d for a, b, one in ends for c, d, other in ends if one == other)
        assert bool(refused) == crosses
        if refused:
            with pytest.raises(ValueError, match="crosses another"):
                document.with_entities(given_entities)
            return
        write_coref(path, [document.with_entities(given_entities)])
        (again,) = read_coref(path)
        assert {(span.first, span.last) for span in again.mentions} == set(spans)
        found = {(span.first, span.last): span.entity for span in again.mentions}
        pairs = [(one, other) for one in spans for other in spans]
        assert all((wanted[one] == wanted[other]) == (found[one] == found[other]) for one, other in pairs)


@pytest.mark.parametrize("brackets", ["\x0b1)", "(1\x0b", "(\u2028-", "(-\x85"])
def test_messages_show_what_cannot_be_seen(tmp_path: Path, brackets: str) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"# begin document one\n0\tx\t{brackets}\n# end document\n")
    with pytest.raises(FormatError) as problem:
        read_coref(path)
    assert problem.value.line == 2 and str(problem.value).isprintable()
