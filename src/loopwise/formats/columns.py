"""Column files: a token a line, its tag in one of the columns, an empty line after each sentence.

In: files of CoNLL-2003 (``word pos chunk tag``), WNUT (``word TAB tag``), wikigold (``word tag``, ``-DOCSTART-``
lines), UNER (``id TAB word TAB tag ...``, ``#`` comments) or treebanks (CoNLL-U, ten columns), plain or ``.gz``. Out:
:class:`TaggedText` in one coding; and back. What separates lines and columns: :mod:`loopwise.formats.lines`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from loopwise.formats.errors import FormatError, quoted, shortened
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text
from loopwise.formats.iob import (
    OUTSIDE,
    Coding,
    Integers,
    TagError,
    TagSet,
    broken_places,
    guess_coding,
    numbered,
    recode,
)
from loopwise.formats.lines import SPACES, holds_line_end, is_blank, split_cells, split_lines
from loopwise.formats.numbers import is_whole
from loopwise.formats.vocabulary import known_names
from loopwise.notices import DataWarning, warn

DOCUMENT_START = "-DOCSTART-"
_NEW_DOCUMENT = "# newdoc"  # of treebanks
_IDENTIFIER_COLUMNS = 3  # a line of a file with identifiers has at least id, word and tag


class BlankTokens(Enum):
    """What becomes of tokens in whose place there is nothing, or nothing but white space (a no-break space, say)."""

    REFUSE = "refuse"  # an error that names the line
    SKIP = "skip"  # left out, with one warning that counts them
    KEEP = "keep"  # tokens like any other


class BrokenTagsWarning(DataWarning):
    """Tags that broke their coding were repaired."""


@dataclass(frozen=True)
class Columns:
    """Where things stand in a line. ``tabs``: columns are separated by single tabs, else by runs of spaces.

    ``word`` and ``tag``: their columns, from 0 or, negative, from the end. ``identifiers``: the first column numbers
    the tokens of a sentence, lines that begin with ``#`` are comments.
    """

    word: int = 0
    tag: int = -1
    tabs: bool = False
    identifiers: bool = False


WORD_TAG = Columns()  # CoNLL-2003 and wikigold: the word first, the tag last
WORD_TAB_TAG = Columns(tabs=True)  # WNUT: words may be anything but tabs
ID_WORD_TAG = Columns(word=1, tag=2, tabs=True, identifiers=True)  # UNER
TREEBANK = Columns(word=1, tag=3, tabs=True, identifiers=True)  # CoNLL-U: universal parts of speech
TREEBANK_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

# A tagger has weights for each pair of tags. Where more differ, the column is rather one of words or lemmas; one that
# is named on purpose may have more.
MANY_TAGS, MOST_TAGS = 300, 1000
_NAMES_LINE = "# global.columns ="  # CoNLL-U Plus
_NUMBERED = "column"  # before the number of a column that has no name


@dataclass(frozen=True, eq=False)
class TaggedText:
    """Tokens of all sentences, one after another: sentence ``s`` is tokens ``start[s]`` to ``start[s + 1] - 1``.

    ``tags`` is None where the file was read without; ``lines`` are the tokens' lines, from 1; ``columns``: what other
    columns that were asked for have; ``document`` ``[sentences]``: which document each belongs to, where the file says
    (``-DOCSTART-`` lines, ``# newdoc`` comments).
    """

    words: list[str]
    tags: list[str] | None
    start: Integers  # [sentences + 1]
    lines: Integers  # [tokens]
    coding: Coding = Coding.PLAIN
    columns: Mapping[str, list[str]] | None = None
    document: Integers | None = None

    def __len__(self) -> int:
        """How many sentences."""
        return len(self.start) - 1

    def sentences(self) -> list[list[str]]:
        """The words, a list a sentence."""
        return split(self.words, self.start)

    def tagged(self) -> list[list[str]]:
        """The tags, a list a sentence."""
        if self.tags is None:
            raise ValueError("the text was read without tags; read the file with read_columns, or do without them")
        return split(self.tags, self.start)


def split(items: Sequence[Any], start: Integers) -> list[list[Any]]:
    """Items of all sentences as a list a sentence."""
    bounds = start.tolist()
    return [list(items[begin:end]) for begin, end in itertools.pairwise(bounds)]


def read_tagged(
    path: PathLike,
    *,
    columns: Columns | None = None,
    coding: Coding | None = None,
    repair: bool = True,
    outside: Collection[str] = (),
    blank_tokens: BlankTokens = BlankTokens.REFUSE,
    column: str | int | None = None,
    extra: Sequence[str] = (),
) -> TaggedText:
    """Words and tags of a column file; entities come out in IOB2 whatever coding they had.

    ``columns`` and ``coding``: told from the content if not given. ``column``: where the tags are, a number from 1 or a
    name: of a treebank ``"upos"`` (the default), ``"xpos"``, ``"feats"``, ...; of a file with a line
    ``# global.columns = ID FORM ...`` those that it names. ``repair``: tags that break IOB2 (an ``I`` that
    continues nothing) become what they are taken for anyway, ``B``, with one warning; otherwise the first is an error.
    ``outside``: types of entities to leave out. ``blank_tokens``: what to do about tokens without a visible character.
    ``extra``: other columns to keep, for templates: by name where the file names them, or ``"column2"`` for the second.
    O(size of the file).
    """
    where, rows, layout = _rows(path, columns)
    names = _column_names(rows, layout)
    if column is not None:
        layout = replace(layout, tag=_column_of(where, column, names))
    if names is not None and coding is None and layout.tag < len(names) and names[layout.tag] in TREEBANK_COLUMNS:
        coding = Coding.PLAIN  # a part of speech may well be called O
    words, tags, start, lines = _tokens(where, rows, layout, True, blank_tokens)
    kept_columns = _extra_columns(where, rows, layout, lines, extra, names)
    _check_tags(where, tags, layout, names, MANY_TAGS if column is None else MOST_TAGS)
    kept = _without(tags, outside)
    try:
        kept, coding = _recoded(where, kept, start, lines, coding, repair)
    except TagError as problem:
        raise FormatError(where, int(lines[problem.place]), problem.problem) from None
    return TaggedText(words, kept, start, lines, coding, kept_columns, _documents(rows, layout, lines[start[:-1]]))


def read_words(
    path: PathLike,
    *,
    columns: Columns | None = None,
    blank_tokens: BlankTokens = BlankTokens.REFUSE,
    extra: Sequence[str] = (),
) -> TaggedText:
    """The words of a column file; it may have no tags. ``extra``: as for :func:`read_tagged`."""
    where, rows, layout = _rows(path, columns)
    words, _, start, lines = _tokens(where, rows, layout, False, blank_tokens)
    kept = _extra_columns(where, rows, layout, lines, extra, _column_names(rows, layout))
    document = _documents(rows, layout, lines[start[:-1]])
    return TaggedText(words, None, start, lines, columns=kept, document=document)


def write_tagged(
    path: PathLike,
    words: Iterable[Sequence[str]],
    tags: Iterable[Sequence[str]],
    *,
    blank_tokens: BlankTokens = BlankTokens.REFUSE,
) -> None:
    """Writes ``word TAB tag`` lines, an empty line after each sentence; the file appears whole or not at all.

    What could not be read back as it is (a word with a tab or with spaces around it, say) is a ``ValueError``;
    ``blank_tokens``: words without a visible character are too, are left out, or are written for a reader that keeps
    them.
    """
    with atomic_write(path) as out:
        for number, (sentence, said) in enumerate(zip(words, tags, strict=True)):
            if len(sentence) != len(said):
                raise ValueError(
                    f"sentence {number} has {len(sentence)} words and {len(said)} tags; give each word one"
                )
            for word, tag in zip(sentence, said, strict=True):
                if is_blank(word) and blank_tokens is BlankTokens.SKIP:
                    continue
                fits_word = _fits_cell(word, blank_tokens is BlankTokens.KEEP) and not _begins_document(word)
                fits_tag = _fits_cell(tag, False)
                for what, text, fits in (("word", word, fits_word), ("tag", tag, fits_tag)):
                    if not fits:
                        raise ValueError(
                            f"sentence {number} has the {what} {quoted(text)}, which a line cannot hold; "
                            "replace its spaces and line ends"
                        )
                out.write(f"{word}\t{tag}\n")
            out.write("\n")


def guess_columns(lines: Iterable[str]) -> Columns:
    """The layout that the first line of a token tells."""
    for line in lines:
        cells = line.split("\t")
        if is_blank(line) or (line.startswith("# ") and len(cells) == 1):
            continue
        if len(cells) == len(TREEBANK_COLUMNS) and cells[0].partition("-")[0] == "1":
            return TREEBANK
        if len(cells) >= _IDENTIFIER_COLUMNS and cells[0] == "1":
            return ID_WORD_TAG
        return WORD_TAB_TAG if len(cells) > 1 else WORD_TAG
    return WORD_TAG


def _rows(path: PathLike, columns: Columns | None) -> tuple[str, list[str], Columns]:
    where = display_name(path)
    rows = split_lines(read_text(path), where)
    return where, rows, guess_columns(rows) if columns is None else columns


def _column_names(rows: Sequence[str], layout: Columns) -> tuple[str, ...] | None:
    """What the columns are called, in lower case; None if nothing says so."""
    told = next((row for row in rows[:100] if row.startswith(_NAMES_LINE)), None)
    if told is not None:
        return tuple(told.removeprefix(_NAMES_LINE).lower().split())
    return TREEBANK_COLUMNS if layout == TREEBANK else None


def _column_of(where: str, column: str | int, names: tuple[str, ...] | None) -> int:
    """The place of a column, from 0."""
    text = str(column).strip().lower()
    if is_whole(text) and int(text) >= 1:
        return int(text) - 1
    if names is None:
        raise FormatError(
            where,
            None,
            f"the file does not name its columns, so there is none called {quoted(text)}; give its number "
            "(column2, say, in templates)",
        )
    if text not in names:
        raise FormatError(where, None, f"no column is called {quoted(text)}; {known_names('columns', names, text)}")
    return names.index(text)


def _extra_columns(
    where: str,
    rows: Sequence[str],
    layout: Columns,
    lines: Integers,
    extra: Sequence[str],
    names: tuple[str, ...] | None,
) -> dict[str, list[str]] | None:
    """What columns beside words and tags have, token by token."""
    if not extra:
        return None
    cells = [split_cells(rows[line - 1], layout.tabs) for line in lines.tolist()]
    found: dict[str, list[str]] = {}
    for name in extra:
        number = name.removeprefix(_NUMBERED)
        place = _column_of(where, number if number != name and is_whole(number) else name, names)
        short = next((at for at, row in enumerate(cells) if len(row) <= place), None)
        if short is not None:
            raise FormatError(
                where,
                int(lines[short]),
                f"the line has {len(cells[short])} columns, column {place + 1} is asked for",
            )
        found[name] = [row[place] for row in cells]
    return found


def _check_tags(where: str, tags: Sequence[str], layout: Columns, names: tuple[str, ...] | None, most: int) -> None:
    """Refuses a column that is none of tags."""
    different = set(tags)
    number = "the last column" if layout.tag < 0 else f"column {layout.tag + 1}"
    if names is not None and 0 <= layout.tag < len(names):
        number += f" ({names[layout.tag]})"
    if names is not None and different == {"_"}:
        raise FormatError(where, None, f"{number} is empty, '_' throughout; name another one (--column)")
    if len(different) > most:
        raise FormatError(
            where,
            None,
            f"{number} holds {len(different)} different tags, more than {most}, as a column of words would; name the "
            "column of the tags (--column)",
        )


def _tokens(
    where: str, rows: Sequence[str], layout: Columns, with_tags: bool, blank_tokens: BlankTokens
) -> tuple[list[str], list[str], Integers, Integers]:
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    blank: list[int] = []  # lines of tokens left out
    start, width = [0], 0
    for number, row in enumerate(rows, start=1):
        cells = split_cells(row, layout.tabs)
        if is_blank(row) or _begins_document(row):
            if len(words) > start[-1]:
                start.append(len(words))
            continue
        if layout.identifiers and row.startswith("#"):
            continue
        if layout.identifiers and not is_whole(cells[0]):
            if is_whole(cells[0].replace("-", "").replace(".", "")):
                continue  # a multiword token or an empty node stands beside the tokens
            raise FormatError(
                where, number, f"the line begins with {quoted(cells[0])} where the token's number should be"
            )
        if not layout.tabs and row[0] in SPACES and len(cells) == width - 1:
            cells.insert(0, "")  # the token that should stand before these spaces
        word, tag = _cell(cells, layout.word), _cell(cells, layout.tag)
        if is_blank(word):
            if blank_tokens is BlankTokens.SKIP:
                blank.append(number)
                continue
            if blank_tokens is BlankTokens.REFUSE:
                raise FormatError(
                    where,
                    number,
                    f"there is no word in column {layout.word + 1} of this line; mend it, or have such tokens skipped "
                    "or kept (--blank-tokens)",
                )
        if _begins_document(word):
            raise FormatError(where, number, f"{quoted(word)} is no word but the mark of a new document; leave it out")
        if with_tags and (is_blank(tag) or len(cells) < 2):
            raise FormatError(where, number, f"the token {quoted(word)} has no tag; each line needs a word and a tag")
        width = width or len(cells)
        if layout.tag < 0 and len(cells) != width:  # the last column is another one here
            raise FormatError(
                where,
                number,
                f"the line has {len(cells)} columns, the first token has {width}; write one token a line, each with "
                "the same columns",
            )
        words.append(word)
        tags.append(tag)
        lines.append(number)
    if len(words) > start[-1]:
        start.append(len(words))
    if blank:
        warn(
            f"{where}: {len(blank)} tokens without a visible character were left out, the first on line {blank[0]}",
            DataWarning,
        )
    if not words:
        raise FormatError(where, None, "there is no token in the file; each line must hold a word and its tag")
    return words, tags, np.array(start, dtype=np.int64), np.array(lines, dtype=np.int64)


def _documents(rows: Sequence[str], layout: Columns, first: Integers) -> Integers | None:
    """The document of each sentence, by the line of its first token; None where nothing says."""
    marks = [
        number
        for number, row in enumerate(rows, start=1)
        if _begins_document(row) or (layout.identifiers and row.startswith(_NEW_DOCUMENT))
    ]
    return np.searchsorted(np.array(marks), first) if marks else None


def _cell(cells: Sequence[str], place: int) -> str:
    return cells[place] if -len(cells) <= place < len(cells) else ""


def _fits_cell(text: str, may_be_blank: bool) -> bool:
    """Whether a cell between tabs gives the text back as it is."""
    kept = text == text.strip(SPACES) and "\t" not in text and not holds_line_end(text)
    return kept and (may_be_blank or not is_blank(text))


def _begins_document(line: str) -> bool:
    return line.startswith(DOCUMENT_START) and (len(line) == len(DOCUMENT_START) or line[len(DOCUMENT_START)] in SPACES)


def _without(tags: list[str], outside: Collection[str]) -> list[str]:
    if not outside:
        return tags
    return [OUTSIDE if tag.partition("-")[2] in outside and "-" in tag else tag for tag in tags]


def _recoded(
    where: str, tags: list[str], start: Integers, lines: Integers, coding: Coding | None, repair: bool
) -> tuple[list[str], Coding]:
    known, tag = numbered(tags)
    if coding is Coding.PLAIN or (coding is None and not _has_entities(known)):
        return tags, Coding.PLAIN
    try:
        kinds = TagSet.of(known)
    except TagError as problem:  # its place is the number of the tag; the reader wants the token
        raise TagError(int(np.flatnonzero(tag == problem.place)[0]), problem.problem) from None
    found = guess_coding(tag, kinds, start) if coding is None else coding
    if found is Coding.IOB2:
        broken = broken_places(tag, kinds, start)
        if broken.size:
            _report_broken(where, tags, lines, broken, repair)
    return recode(tags, start, Coding.IOB2), Coding.IOB2


def _has_entities(known: Sequence[str]) -> bool:
    return any(tag == OUTSIDE or tag[:2] in ("B-", "I-") for tag in known)


def _report_broken(where: str, tags: Sequence[str], lines: Integers, broken: Integers, repair: bool) -> None:
    first = int(broken[0])
    if not repair:
        raise TagError(
            first,
            f"the tag {quoted(tags[first])} continues an entity that no tag before it began; "
            "mend it, or have it read as the beginning of one (repair=True, or without --strict)",
        )
    kinds = Counter(tags[place] for place in broken.tolist())
    most = ", ".join(f"{shortened(tag)} ({count})" for tag, count in kinds.most_common(3))
    warn(
        f"{where}: {len(broken)} tags continue an entity that none began, the first on line {lines[first]}; they are "
        f"read as its beginning: {most}",
        BrokenTagsWarning,
    )
