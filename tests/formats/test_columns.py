"""Treebanks as column files: which column the tags are in, and what is no column of tags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopwise.formats import FormatError
from loopwise.formats.columns import read_tagged, read_words
from loopwise.formats.iob import Coding

SENTENCE = """# sent_id = 1
1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\tO\t_\t3\tcase\t_\t_
2\tel\tel\tDET\tB-x\tGender=Masc\t3\tdet\t_\t_
2.1\tun\t_\t_\t_\t_\t_\t_\t_\t_
3\tperro\tperro\tNOUN\tN\tGender=Masc\t0\troot\t_\tSpaceAfter=No

"""


def file_of(folder: Path, text: str, name: str = "t.conllu") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_treebank_has_its_tags_in_the_fourth_column(tmp_path: Path) -> None:
    path = file_of(tmp_path, SENTENCE * 2)
    text = read_tagged(path)
    assert text.sentences() == [["de", "el", "perro"]] * 2
    assert text.tagged() == [["ADP", "DET", "NOUN"]] * 2 and text.coding is Coding.PLAIN
    assert read_words(path).sentences() == text.sentences()
    for column, tags in {
        "xpos": ["O", "B-x", "N"],  # parts of speech, whatever they look like
        "XPOS": ["O", "B-x", "N"],
        "feats": ["_", "Gender=Masc", "Gender=Masc"],
        8: ["case", "det", "root"],
        "3": ["de", "el", "perro"],
    }.items():
        assert read_tagged(path, column=column).tagged()[0] == tags


def test_columns_by_number_and_by_the_names_that_a_file_gives(tmp_path: Path) -> None:
    plain = file_of(tmp_path, "Ann NNP B-PER\nran VBD O\n", "t.txt")
    assert read_tagged(plain, column=2).tagged() == [["NNP", "VBD"]] and read_tagged(plain).coding is Coding.IOB2
    named = file_of(
        tmp_path, "# global.columns = ID FORM UPOS NER\n1\tAnn\tPROPN\tB-PER\n2\tran\tVERB\tO\n", "t.conllup"
    )
    assert read_tagged(named, column="ner").tagged() == [["B-PER", "O"]]
    assert read_tagged(named, column="upos").tagged() == [["PROPN", "VERB"]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("upso", "no column is called 'upso'; did you mean 'upos'?"),
        ("deps", "column 9 (deps) is empty, '_' throughout; name another one (--column)"),
        (11, "has no tag"),
        (0, "no column is called '0'"),
    ],
)
def test_columns_that_are_none(column: str | int, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=re.escape(message)):
        read_tagged(file_of(tmp_path, SENTENCE), column=column)


def test_hundreds_of_tags_are_refused(tmp_path: Path) -> None:
    words = "".join(f"word{number}\tlemma{number}\n" for number in range(1100))
    path = file_of(tmp_path, words, "t.tsv")
    with pytest.raises(FormatError, match=r"the last column holds 1100 different tags, more than 300.*\(--column\)"):
        read_tagged(path)
    with pytest.raises(FormatError, match="column 2 holds 1100 different tags, more than 1000"):
        read_tagged(path, column=2)
    few = "".join(f"word{number}\ttag{number % 500}\n" for number in range(1000))
    assert len(set(read_tagged(file_of(tmp_path, few, "few.tsv"), column=2).tags or ())) == 500
    with pytest.raises(FormatError, match=r"the file does not name its columns.*give its number"):
        read_tagged(path, column="upos")
