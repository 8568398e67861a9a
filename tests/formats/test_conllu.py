"""CoNLL-U and CoNLL-X: what is read comes back line by line, what is wrong is said with its line."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats import FormatError
from loopwise.formats.conllu import (
    NO_HEAD,
    check_tree,
    find_cycle,
    format_sentence,
    make_sentence,
    parse_conllu,
    read_conllu,
    write_conllu,
)

TEXT = """\
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tIN\t_\t5\tcase\t_\t_
4\tel\tel\tDET\tDT\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tNN\t_\t1\tobl\t5:obl\tSpaceAfter=No
5.1\tvamos\tir\tVERB\t_\t_\t_\t_\t1:conj\t_

# newpar
0.1\t_\t_\t_\t_\t_\t_\t_\t_\t_
1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\t_

"""


def row(identifier: object, head: object = 0, form: str = "x") -> str:
    return f"{identifier}\t{form}\t_\tX\t_\t_\t{head}\tdep\t_\t_"


def test_words_columns_and_tokens() -> None:
    first, second = parse_conllu(TEXT)
    assert first.forms == ["Vamos", "nos", "a", "el", "mar"]
    assert first.heads == (0, 1, 5, 5, 1) and first.has_tree
    assert first.coarse_tags[2:] == ["ADP", "DET", "NOUN"]
    assert first.fine_tags == ["VERB", "PRON", "IN", "DT", "NN"]  # the coarse tag where there is no fine one
    assert first.spans == ((1, 2, "Vámonos"), (3, 4, "al"))
    assert len(second) == 1 and second.line == 12 and second.line_of(1) == 14


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    for name in ("a.conllu", "a.conllu.gz"):
        write_conllu(tmp_path / name, parse_conllu(TEXT))
        data = (tmp_path / name).read_bytes()
        assert (gzip.decompress(data) if name.endswith("gz") else data).decode() == TEXT
        assert [s.lines for s in read_conllu(tmp_path / name)] == [s.lines for s in parse_conllu(TEXT)]


def test_a_new_tree_changes_heads_relations_and_notes_alone() -> None:
    first = next(parse_conllu(TEXT))
    changed = first.with_tree([0, 1, 1, 3, 4], ["root", "a", "b", "c", "d"], [f"P={k}" for k in range(5)])
    assert changed.heads == (0, 1, 1, 3, 4) and changed.relations == ["root", "a", "b", "c", "d"]
    for old, new in zip(first.lines, changed.lines, strict=True):
        if old[0] == "#" or "-" in old.split("\t")[0] or "." in old.split("\t")[0]:
            assert old == new
        else:
            before, after = old.split("\t"), new.split("\t")
            assert before[:6] == after[:6] and before[8] == after[8]
    assert changed.lines[-2].endswith("\tSpaceAfter=No|P=4") and changed.lines[3].endswith("\tP=0")
    assert next(parse_conllu(format_sentence(changed))).heads == changed.heads
    with pytest.raises(ValueError, match="2 heads do not fit a sentence of 5 words"):
        first.with_tree([0, 1])


def test_standard_input_windows_lines_and_missing_last_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (row(1) + "\r\n\r\n" + row(1)).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert [s.lines for s in read_conllu("-")] == [(row(1),)] * 2


@pytest.mark.parametrize("end", ["\r\n", "\r\r\n"])
def test_carriage_returns_are_of_the_line_end_or_refused(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(end.join(["# a", row(1), "", row(1), ""]).encode())
    sentences = read_conllu(path)
    assert [sentence.lines for sentence in sentences] == [("# a", row(1)), (row(1),)]
    write_conllu(path, sentences)
    assert [sentence.lines for sentence in read_conllu(path)] == [sentence.lines for sentence in sentences]
    path.write_bytes(f"# a{end}{row(1)[:-1]}{end}".encode())
    with pytest.raises(FormatError, match="line 2: column 10 is empty"):
        read_conllu(path)
    path.write_bytes(f"# a{end}# b\r{row(1)}{end}".encode())  # as of a file whose line ends are carriage returns
    with pytest.raises(FormatError, match="line 2: a carriage return stands inside of the line"):
        read_conllu(path)


def test_lines_that_would_be_two_are_not_written(tmp_path: Path) -> None:
    for form in ("a\rb", "a\nb"):
        with pytest.raises(ValueError, match="holds a line end"):
            write_conllu(tmp_path / "out", [make_sentence([form], ["X"])])
        assert not (tmp_path / "out").exists()


def test_empty_files_and_comments_alone() -> None:
    assert list(parse_conllu("")) == [] == list(parse_conllu("\n\n"))
    (only,) = parse_conllu("# nothing\n\n")
    assert len(only) == 0 and format_sentence(only) == "# nothing\n\n"


def test_heads_may_be_missing_unless_trees_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(row(1, "_") + "\n")
    (sentence,) = read_conllu(path)
    assert sentence.heads == (NO_HEAD,) and not sentence.has_tree
    with pytest.raises(FormatError, match="line 1: word 1 has no head"):
        read_conllu(path, trees=True)


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        ([row(1), "2\tx\t_"], 2, "3 columns where there must be 10"),
        ([row(1), row(3)], 2, "the id is 3 where 2 comes next"),
        ([row(1), row("b")], 2, "the id 'b' is no number"),
        ([row(1), row(2, 3)], 2, "the head 3 is out of range; the sentence has 2 words"),
        ([row(1, "x")], 1, "the head 'x' is neither a number nor _"),
        ([row(1, -1)], 1, "the head '-1' is neither"),
        ([row(1).replace("dep", "")], 1, "column 8 is empty"),
        ([row("2-3"), row(1)], 1, "must begin at the next word, 1"),
        ([row("1-2"), row(1)], 1, "ends after the last word, 1"),
        ([row("1-2"), row(1), row("2-3", 0), row(2, 1), row(3, 1)], 3, "begins inside 1-2"),
        ([row(1), row("2.1")], 2, "the empty node '2.1' stands where 1.1 would"),
        ([row(1), row("1.1"), row("1.3")], 3, "stands where 1.2 would"),
    ],
)
def test_what_breaks_the_format_is_said_with_its_line(tmp_path: Path, lines: list[str], line: int, words: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(row(1) + "\n\n" + "\n".join(lines) + "\n")
    with pytest.raises(FormatError) as caught:
        read_conllu(path)
    assert caught.value.line == line + 2 and words in str(caught.value) and str(path) in str(caught.value)


def test_a_note_takes_the_place_of_one_of_its_key() -> None:
    sentence = make_sentence(["a", "b"], ["X", "X"], heads=[0, 1])
    once = sentence.with_tree([0, 1], notes=["Arc=0.9", "Arc=0.8"])
    twice = once.with_tree([0, 1], notes=["Arc=0.5", "Other=1"])
    assert [word[-1] for word in twice.words] == ["Arc=0.5", "Arc=0.8|Other=1"]


def test_cycles_and_second_roots_are_said_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bad.conllu"
    good, cycle, roots = [row(1)], [row(1, 0), row(2, 3), row(3, 2)], [row(1), row(2, 0)]
    alone = [row(1), row(2, 2)]
    path.write_text("\n\n".join("\n".join(block) for block in (good, cycle, roots, alone)) + "\n\n")
    with pytest.raises(FormatError, match="line 4: heads form a cycle: 2 -> 3 -> 2"):
        read_conllu(path, trees=True)
    told: list[FormatError] = []
    assert len(read_conllu(path, trees=True, skipped=told.append)) == 2
    assert "line 11: word 2 is its own head" in str(told[-1])
    assert len(read_conllu(path, trees=True, single_root=True, skipped=told.append)) == 1
    assert "line 8: words 1 and 2 both have the head 0" in str(told[-2])


@given(st.data())
def test_cycles_are_found_iff_there_are_any(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 7))
    heads = [data.draw(st.integers(0, n).filter(lambda h, m=m: h != m)) for m in range(1, n + 1)]
    reaches_root = []
    for word in range(1, n + 1):
        for _ in range(n):
            word = heads[word - 1] if word else 0
        reaches_root.append(word == 0)
    cycle = find_cycle(heads)
    assert bool(cycle) != all(reaches_root)
    assert all(heads[a - 1] == b for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_sentences_can_be_made_from_words() -> None:
    made = make_sentence(["a", "b"], ["X", "Y"], ["x", "y"], [0, 1], ["root", "dep"])
    check_tree(made, single_root=True)
    assert next(parse_conllu(format_sentence(made))).words == made.words


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("1\t", "\u0661\t"), "is no number, range"),
        (("1\t", "9" * 5000 + "\t"), r"9… \(5000 characters\) where 1 comes next"),
        (("\t0\t", "\t" + "9" * 5000 + "\t"), r"9… \(5000 characters\) is out of range"),
        (("\t0\t", "\t\u0660\t"), "neither a number nor _"),
        (("\t0\t", "\t1_0\t"), "neither a number nor _"),
        (("1\t", "1-" + "9" * 5000 + "\t"), r"\(5002 characters\) must begin at the next word"),
        (("1\t", "0." + "9" * 5000 + "\t"), r"\(5002 characters\) stands where"),
    ],
)
def test_numbers_are_plain_and_not_endless(changed: tuple[str, str], words: str) -> None:
    line = "1\tAnn\t_\tPROPN\t_\t_\t0\troot\t_\t_\n"
    with pytest.raises(FormatError, match=words) as problem:
        list(parse_conllu(line.replace(*changed, 1)))
    assert problem.value.line == 1 and len(str(problem.value)) < 200
