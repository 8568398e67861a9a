"""Column files and codings of entities: conversions, repairs, errors with lines."""

from __future__ import annotations

import gzip
import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.formats.columns import (
    ID_WORD_TAG,
    WORD_TAB_TAG,
    WORD_TAG,
    BlankTokens,
    BrokenTagsWarning,
    guess_columns,
    read_tagged,
    read_words,
    write_tagged,
)
from loopwise.formats.errors import FormatError
from loopwise.formats.iob import Coding, TagSet, allowed_steps, broken_places, find_spans, numbered, recode
from loopwise.notices import DataWarning

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
sentences_of_tags = st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=7), min_size=1, max_size=4)


def flat(sentences: list[list[str]]) -> tuple[list[str], np.ndarray]:
    return [tag for sentence in sentences for tag in sentence], np.cumsum([0, *map(len, sentences)])


def spans_of(tags: list[str], start: np.ndarray) -> list[tuple[int, int, str]]:
    known, number = numbered(tags)
    return find_spans(number, TagSet.of(known), start).named()


def spans_by_hand(sentences: list[list[str]]) -> list[tuple[int, int, str]]:
    """One token after another, as the CoNLL evaluation goes."""
    found, offset = [], 0
    for sentence in sentences:
        open_at, open_type = None, None
        for place, tag in enumerate([*sentence, "O"]):
            letter, _, name = tag.partition("-")
            if open_at is not None and (letter in ("O", "B") or name != open_type):
                found.append((offset + open_at, offset + place, open_type))
                open_at = None
            if letter != "O" and open_at is None:
                open_at, open_type = place, name
        offset += len(sentence)
    return found


@given(sentences_of_tags)
def test_spans_of_any_sequence(sentences: list[list[str]]) -> None:
    tags, start = flat(sentences)
    assert spans_of(tags, start) == spans_by_hand(sentences)


@given(sentences_of_tags)
def test_codings_hold_the_same_entities(sentences: list[list[str]]) -> None:
    tags, start = flat(sentences)
    entities = spans_by_hand(sentences)
    for coding in (Coding.IOB2, Coding.IOB1):
        again = recode(tags, start, coding)
        assert spans_of(again, start) == entities
        assert recode(again, start, Coding.IOB2) == recode(tags, start, Coding.IOB2)
    known, number = numbered(recode(tags, start, Coding.IOB2))
    assert broken_places(number, TagSet.of(known), start).size == 0
    touching = any(a[1] == b[0] and a[2] == b[2] and a[1] not in start for a, b in itertools.pairwise(entities))
    assert (spans_of(recode(tags, start, Coding.IO), start) == entities) is not touching


def test_allowed_steps_are_those_of_unbroken_sequences() -> None:
    tags = TagSet.of(TAGS)
    first, follow = allowed_steps(tags)
    for one in range(len(TAGS)):
        assert first[one] == (broken_places(np.array([one]), tags, np.array([0, 1])).size == 0)
        for two in range(len(TAGS)):
            places = broken_places(np.array([one, two]), tags, np.array([0, 2]))
            assert follow[one, two] == (1 not in places)


CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP I-ORG
rejects VBZ B-VP O
German JJ B-NP I-MISC
Swiss JJ B-NP B-MISC

Peter NNP B-NP I-PER
Blackburn NNP I-NP I-PER
"""
WNUT = "@paul\tO\nEmpire\tB-location\n#\tO\n\t\nState\u2028x\tI-location\r\n\n"
WIKIGOLD = "010 I-MISC\nis O\n\n-DOCSTART- O\n\nThe I-ORG\nMad I-ORG\n"
UNER = "# text = Al\n1\tAl\tB-ORG\t-\t-\n1-2\tal'a\t_\n2\t#\tO\n\n# sent_id = 2\n1\tUS\tB-O\tx\n"


def put(tmp_path: Path, text: str, name: str = "data.conll") -> Path:
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, newline="")
    return path


def test_layouts_are_told_from_the_content() -> None:
    assert guess_columns(CONLL.split("\n")) == WORD_TAG == guess_columns(WIKIGOLD.split("\n"))
    assert guess_columns(WNUT.split("\n")) == WORD_TAB_TAG
    assert guess_columns(UNER.split("\n")) == ID_WORD_TAG


@pytest.mark.parametrize("name", ["data.conll", "data.conll.gz"])
def test_conll_2003(tmp_path: Path, name: str) -> None:
    text = read_tagged(put(tmp_path, CONLL, name))
    assert text.sentences() == [["EU", "rejects", "German", "Swiss"], ["Peter", "Blackburn"]]
    assert text.tagged() == [["B-ORG", "O", "B-MISC", "B-MISC"], ["B-PER", "I-PER"]]
    assert text.lines.tolist() == [3, 4, 5, 6, 8, 9] and text.coding is Coding.IOB2


def test_words_with_odd_characters_and_blank_lines_of_tabs(tmp_path: Path) -> None:
    with pytest.warns(BrokenTagsWarning, match="line 5"):
        text = read_tagged(put(tmp_path, WNUT))
    assert text.sentences() == [["@paul", "Empire", "#"], ["State\u2028x"]]
    assert text.tagged()[1] == ["B-location"]


def test_io_with_document_marks(tmp_path: Path) -> None:
    text = read_tagged(put(tmp_path, WIKIGOLD))
    assert text.tagged() == [["B-MISC", "O"], ["B-ORG", "I-ORG"]]
    with pytest.raises(FormatError, match="line 1: '-DOCSTART-' is no word but the mark of a new document"):
        read_tagged(put(tmp_path, "1\t-DOCSTART-\tO\n2\tran\tO\n"))


def test_uner_and_types_to_leave_out(tmp_path: Path) -> None:
    path = put(tmp_path, UNER, "x.iob2.gz")
    assert read_tagged(path).tagged() == [["B-ORG", "O"], ["B-O"]]
    assert read_tagged(path, outside=("O", "ORG")).tags == ["O", "O", "O"]
    assert read_words(path).sentences() == [["Al", "#"], ["US"]]


def test_plain_tags(tmp_path: Path) -> None:
    text = read_tagged(put(tmp_path, "the DET\ndog NOUN\n"))
    assert text.coding is Coding.PLAIN and text.tags == ["DET", "NOUN"]


def test_broken_tags_are_repaired_or_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a B-PER\nb O\nc I-PER\n\nd I-LOC\ne I-PER\n")
    with pytest.warns(BrokenTagsWarning, match=r"3 tags .* line 3.*I-PER \(2\), I-LOC \(1\)"):
        assert read_tagged(path).tags == ["B-PER", "O", "B-PER", "B-LOC", "B-PER"]
    with pytest.raises(FormatError, match="line 3: the tag 'I-PER' continues"):
        read_tagged(path, repair=False)
    assert read_tagged(path, coding=Coding.IOB1).tags == ["B-PER", "O", "B-PER", "B-LOC", "B-PER"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a O\nb B-\n", ("line 2", "'B-'")),
        ("a O\nb X\n", ("line 2", "'X' is not O, B-type or I-type")),
        ("a O\n\nb\n", ("line 3", "'b' has no tag")),
        ("a\tO\n\tO\n", ("line 2", "no word")),
        ("1\ta\tO\nx\tb\tO\n", ("line 2", "'x'")),
        ("\n\n", ("no token",)),
    ],
)
def test_bad_files_name_their_line(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(FormatError) as caught:
        read_tagged(put(tmp_path, text))
    for word in words:
        assert word in str(caught.value)
    assert "data.conll" in str(caught.value)


def test_written_files_read_back(tmp_path: Path) -> None:
    words, tags = [["New", "York"], ["x"]], [["B-LOC", "I-LOC"], ["O"]]
    write_tagged(tmp_path / "out.gz", words, tags)
    text = read_tagged(tmp_path / "out.gz")
    assert (text.sentences(), text.tagged()) == (words, tags)
    with pytest.raises(ValueError, match="2 words and 1 tags"):
        write_tagged(tmp_path / "never", words, [["O"], ["O"]])
    assert not (tmp_path / "never").exists()


def test_the_shared_files(shared_data: Path) -> None:
    """Numbers of sentences and entities as the data's own description has them."""
    folder = shared_data / "ner"
    known = {
        "wnut17/wnut17train.conll.gz": (3394, 1975),
        "wnut17/emerging.dev.conll.gz": (1009, 836),
        "UNER_Danish-DDT/da_ddt-ud-test.iob2.gz": (565, 446 + 1),  # one begins with I: not counted there, repaired here
        "UNER_Portuguese-Bosque/pt_bosque-ud-dev.iob2.gz": (1172, 1401),
    }
    for name, (sentences, entities) in known.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BrokenTagsWarning)
            text = read_tagged(folder / name)
        assert text.tags is not None
        assert (len(text), len(spans_of(text.tags, text.start))) == (sentences, entities)


@pytest.mark.parametrize("space", ["\xa0", "\x0b", "\x0c", "\u2028", "\u2003", "\x85", "\x1c", "\u3000"])
@pytest.mark.parametrize("between", ["\t", "  "])
def test_only_tabs_and_spaces_separate_columns(tmp_path: Path, space: str, between: str) -> None:
    words = [f"10{space}000", f"{space}men", f"left{space}", "now"]
    rows = [f"{word}{between}O\n" for word in words]
    (tmp_path / "in").write_bytes("".join(rows).encode())
    text = read_tagged(tmp_path / "in")
    assert text.words == words and text.tags == ["O"] * 4
    write_tagged(tmp_path / "out", text.sentences(), text.tagged())
    assert read_tagged(tmp_path / "out").words == words


def test_tokens_without_a_visible_character(tmp_path: Path) -> None:
    for blank, between in (("", "\t"), (" ", "\t"), ("\xa0", "\t"), ("\u3000", " "), ("", " ")):
        path = tmp_path / "in"
        path.write_bytes(f"Ann{between}B-PER\n{blank}{between}O\nsang{between}O\n\n".encode())
        for read in (read_tagged, read_words):
            with pytest.raises(FormatError, match=r"line 2: there is no word in column 1.*--blank-tokens"):
                read(path)
            with pytest.warns(DataWarning, match=r"1 tokens without a visible character were left out.*line 2"):
                assert read(path, blank_tokens=BlankTokens.SKIP).words == ["Ann", "sang"]
            kept = read(path, blank_tokens=BlankTokens.KEEP)
            assert kept.words == ["Ann", blank.strip(" "), "sang"]
        tags = read_tagged(path, blank_tokens=BlankTokens.KEEP).tagged()
        with pytest.raises(ValueError, match="which a line cannot hold"):
            write_tagged(tmp_path / "out", kept.sentences(), tags)
        write_tagged(tmp_path / "out", kept.sentences(), tags, blank_tokens=BlankTokens.KEEP)
        assert read_tagged(tmp_path / "out", blank_tokens=BlankTokens.KEEP).words == kept.words
        write_tagged(tmp_path / "out", kept.sentences(), tags, blank_tokens=BlankTokens.SKIP)
        assert read_tagged(tmp_path / "out").words == ["Ann", "sang"]


@pytest.mark.parametrize(
    ("word", "tag"),
    [("a\tb", "O"), ("a\nb", "O"), (" a", "O"), ("", "O"), ("-DOCSTART-", "O"), ("a", ""), ("a", "O\r"), ("a\rb", "O")],
)
def test_what_would_read_back_otherwise_is_not_written(tmp_path: Path, word: str, tag: str) -> None:
    with pytest.raises(ValueError, match="which a line cannot hold"):
        write_tagged(tmp_path / "out", [[word]], [[tag]])
    assert not (tmp_path / "out").exists()


def test_whatever_is_read_can_be_written(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O\n\n\ufeff\tO\n-DOCSTART-x\tO\r\n# y\tO\r\r\n1\tO\r"
    (tmp_path / "in").write_bytes(content.encode())
    text = read_tagged(tmp_path / "in", columns=WORD_TAB_TAG)
    assert text.words == ["\ufeff", "-DOCSTART-x", "# y", "1"] and text.tags == ["O"] * 4
    write_tagged(tmp_path / "out", text.sentences(), text.tagged())
    again = read_tagged(tmp_path / "out")
    assert again.words == text.words and again.tags == text.tags


@pytest.mark.parametrize("line", ["a\rb\tO", "a\r\tO", "a\tO\r ", "a\tO\rb\tO"])
def test_carriage_returns_inside_of_a_line_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "in").write_bytes(f"x\tO\r\n{line}\n".encode())
    for read in (read_tagged, read_words):
        with pytest.raises(FormatError, match="line 2: a carriage return stands inside of the line"):
            read(tmp_path / "in")


def test_long_cells_are_quoted_in_part(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1\tAnn\tO\n" + "x" * 5000 + "\tsang\tO\n")
    with pytest.raises(FormatError, match=r"xxx…' \(5000 characters\)") as problem:
        read_tagged(tmp_path / "in")
    assert len(problem.value.problem) < 200
    (tmp_path / "in").write_text("Ann\tB-PER\nsang\tQ" + "x" * 5000 + "\n")
    with pytest.raises(FormatError, match=r"\(5001 characters\) is not O") as problem:
        read_tagged(tmp_path / "in")
    assert len(problem.value.problem) < 200


def test_numbers_of_tokens_are_plain_digits(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1\tAnn\tO\n\u00b2\tsang\tO\n")
    with pytest.raises(FormatError, match="where the token's number should be"):
        read_tagged(tmp_path / "in")
