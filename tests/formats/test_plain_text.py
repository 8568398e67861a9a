"""Plain text: words between spaces, marks around them apart."""

from __future__ import annotations

import pytest

from loopwise.formats import FormatError
from loopwise.formats.plain_text import is_treebank, tokenize, words_of_lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The dog sleeps.", ["The", "dog", "sleeps", "."]),
        ("  (no)  spaces\there ", ["(", "no", ")", "spaces", "here"]),
        ("U.S. prices: $3,000.50!!", ["U.S.", "prices", ":", "$", "3,000.50", "!!"]),
        ("mail a.b@c.org, please", ["mail", "a.b@c.org", ",", "please"]),
        ("see https://x.org/a_(b).", ["see", "https://x.org/a_(b", ")", "."]),
        ("l'été, aujourd'hui", ["l'été", ",", "aujourd'hui"]),
        ("हिन्दी में।", ["हिन्दी", "में", "।"]),
        ("...", ["..."]),
        ("-", ["-"]),
        ("", []),
    ],
)
def test_words_of_a_line(line: str, words: list[str]) -> None:
    assert tokenize(line) == words


def test_lines() -> None:
    assert words_of_lines("Hello, world.\n\n  \nBye\n", "t.txt") == [["Hello", ",", "world", "."], ["Bye"]]
    with pytest.raises(FormatError, match=r"t\.txt: there is no sentence in the file; write one a line"):
        words_of_lines("\n \n", "t.txt")


def test_plain_text_and_treebanks_are_told_apart() -> None:
    row = "1\tHello\t_\tINTJ\t_\t_\t0\troot\t_\t_"
    for text in (row, f"# text = Hello\n{row}", row.replace("1\t", "1-2\t", 1), row.replace("\t", " "), "# only\n"):
        assert is_treebank(text)
    for text in ("Hello", "1 of 2\n" + row, "one two three four five six seven eight nine ten"):
        assert not is_treebank(text)
