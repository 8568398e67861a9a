"""Plain text as words: a sentence a line, for languages that put spaces between words.

In: lines. Out: lists of words. White space separates words, punctuation and symbols around them are words of their own;
what stands inside a word (an apostrophe, a hyphen, the point of a number) stays. Nothing is known of any language: for
clitics, or scripts without spaces, tokenise by other means and give lists of words.
"""

from __future__ import annotations

import re
import unicodedata

from loopwise.formats.errors import FormatError
from loopwise.formats.lines import is_blank, split_cells, split_lines

_WHOLE = re.compile(r"[a-z]+://\S+|[^\s@]+@[^\s@]+\.\w+", re.IGNORECASE)  # addresses
_LETTERS = re.compile(r"(\w\.){2,}")  # abbreviations such as U.S., whose last point belongs to them
_TREEBANK_COLUMNS = 10


def tokenize(line: str) -> list[str]:
    """The words of a sentence.

    >>> tokenize("It's 3.5 km to the U.S., isn't it...? (see https://example.org)")
    ["It's", '3.5', 'km', 'to', 'the', 'U.S.', ',', "isn't", 'it', '...', '?', '(', 'see', 'https://example.org', ')']
    """
    return [token for chunk in line.split() for token in _tokens(chunk)]


def words_of_lines(text: str, where: str) -> list[list[str]]:
    """The words of each line that is not blank; ``where`` is how messages call the text."""
    found = [tokenize(line) for line in split_lines(text, where) if not is_blank(line)]
    if not found:
        raise FormatError(where, None, "there is no sentence in the file; write one a line")
    return found


def is_treebank(text: str) -> bool:
    """Whether a text is CoNLL-U (or CoNLL-X) rather than plain: by the first line that is no comment."""
    for line in text.splitlines():
        if not is_blank(line) and not line.startswith("#"):
            cells = split_cells(line, "\t" in line)
            return len(cells) >= _TREEBANK_COLUMNS and cells[0].partition("-")[0] in ("0", "1")
    return True


def _tokens(chunk: str) -> list[str]:
    begin, end = 0, len(chunk)
    before: list[str] = []
    after: list[str] = []
    while begin < end and _is_mark(chunk[begin]):
        size = _run(chunk[begin:end])
        before.append(chunk[begin : begin + size])
        begin += size
    while begin < end and _is_mark(chunk[end - 1]) and not _is_whole(chunk[begin:end]):
        size = _run(chunk[begin:end][::-1])
        after.insert(0, chunk[end - size : end])
        end -= size
    return [*before, *([chunk[begin:end]] if begin < end else []), *after]


def _is_whole(text: str) -> bool:
    return bool(_LETTERS.fullmatch(text)) or (bool(_WHOLE.fullmatch(text)) and text[-1] not in ".,;:!?)]}\"'")


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _run(text: str) -> int:
    """How often the first character is repeated: three points are one word."""
    return next((place for place, character in enumerate(text) if character != text[0]), len(text))
