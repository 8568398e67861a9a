"""CoNLL-U and CoNLL-X: sentences with trees, a word a line in ten columns.

In: a file, plain or ``.gz``, or standard input. Out: :class:`Sentence`, which keeps every line as it was; and back.
Both formats have id, form, lemma, coarse tag, fine tag, features, head and relation in columns 1 to 8; only CoNLL-U has
comments, multiword tokens (``3-4``) and empty nodes (``5.1``), which are kept but are no words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from loopwise.formats.errors import FormatError, quoted, shortened
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text
from loopwise.formats.lines import holds_line_end, is_blank, split_lines
from loopwise.formats.numbers import is_whole, whole_in

COLUMNS = 10
FORM, COARSE, FINE, HEAD, RELATION, MISC = 1, 3, 4, 6, 7, 9
EMPTY = "_"
NO_HEAD = -1  # stands for an empty head column


@dataclass(frozen=True)
class Sentence:
    """Words 1 to n, and all ``lines`` of the file between two blank ones. Word w is ``lines[places[w - 1]]``."""

    lines: tuple[str, ...]
    places: tuple[int, ...]
    words: tuple[tuple[str, ...], ...]  # the ten columns of each word
    heads: tuple[int, ...]  # 0 is the root, NO_HEAD an empty column
    spans: tuple[tuple[int, int, str], ...] = ()  # multiword tokens: first word, last word, form
    where: str = ""
    line: int = 1  # where the first of the lines stands in the file

    def __len__(self) -> int:
        return len(self.words)

    @property
    def forms(self) -> list[str]:
        """The words as they are written."""
        return [word[FORM] for word in self.words]

    @property
    def coarse_tags(self) -> list[str]:
        """UPOS or CPOSTAG."""
        return [word[COARSE] for word in self.words]

    @property
    def fine_tags(self) -> list[str]:
        """XPOS or POSTAG, the coarse tag where there is none."""
        return [word[FINE] if word[FINE] != EMPTY else word[COARSE] for word in self.words]

    @property
    def relations(self) -> list[str]:
        """DEPREL of each word."""
        return [word[RELATION] for word in self.words]

    @property
    def has_tree(self) -> bool:
        """Whether every word has a head."""
        return NO_HEAD not in self.heads

    def with_tree(
        self, heads: Sequence[int], relations: Sequence[str] | None = None, notes: Sequence[str] | None = None
    ) -> Sentence:
        """The same with other heads and relations; ``notes`` (``Key=value``) are put in the last column.

        Every other column, comment, multiword token and empty node is left as it is.
        """
        if len(heads) != len(self):
            raise ValueError(f"{len(heads)} heads do not fit a sentence of {len(self)} words; give one for each word")
        lines, words = list(self.lines), []
        for number, (place, word) in enumerate(zip(self.places, self.words, strict=True)):
            columns = list(word)
            columns[HEAD] = EMPTY if heads[number] == NO_HEAD else str(int(heads[number]))
            if relations is not None:
                columns[RELATION] = relations[number]
            if notes is not None:
                columns[MISC] = _noted(columns[MISC], notes[number])
            words.append(tuple(columns))
            lines[place] = "\t".join(columns)
        return dataclasses.replace(
            self, lines=tuple(lines), words=tuple(words), heads=tuple(int(head) for head in heads)
        )

    def with_tags(self, coarse: Sequence[str], fine: Sequence[str] | None = None) -> Sentence:
        """The same with other tags; without ``fine`` ones the column of these is emptied."""
        if len(coarse) != len(self) or (fine is not None and len(fine) != len(self)):
            raise ValueError(
                f"tags for {len(coarse)} words do not fit a sentence of {len(self)}; give one for each word"
            )
        lines, words = list(self.lines), []
        for number, (place, word) in enumerate(zip(self.places, self.words, strict=True)):
            columns = list(word)
            columns[COARSE], columns[FINE] = coarse[number], EMPTY if fine is None else fine[number]
            words.append(tuple(columns))
            lines[place] = "\t".join(columns)
        return dataclasses.replace(self, lines=tuple(lines), words=tuple(words))

    def line_of(self, word: int) -> int:
        """Where word ``word`` (from 1) stands in the file it came from."""
        return self.line + self.places[word - 1]


def read_conllu(
    path: PathLike,
    *,
    trees: bool = False,
    single_root: bool = False,
    skipped: Callable[[FormatError], None] | None = None,
) -> list[Sentence]:
    """The sentences of a file; ``-`` is standard input.

    ``trees``: every word must have a head, and heads must form a tree (``single_root``: with one word under the root).
    ``skipped``: is told of sentences without such a tree, which are then left out; without it they are an error.
    What breaks the format itself always is. Time O(characters).
    """
    sentences = []
    for sentence in parse_conllu(read_text(path), display_name(path)):
        if trees:
            try:
                check_tree(sentence, single_root=single_root)
            except FormatError as problem:
                if skipped is None:
                    raise
                skipped(problem)
                continue
        sentences.append(sentence)
    return sentences


def parse_conllu(text: str, where: str = "<text>") -> Iterator[Sentence]:
    """The sentences of a text; ``where`` is how messages call it."""
    block: list[str] = []
    first = 1
    for number, line in enumerate(split_lines(text, where), 1):
        if not is_blank(line):
            if not block:
                first = number
            block.append(line)
        elif block:
            yield _sentence(block, where, first)
            block = []
    if block:
        yield _sentence(block, where, first)


def write_conllu(path: PathLike, sentences: Iterable[Sentence]) -> None:
    """Writes all lines of ``sentences``, each sentence followed by a blank line; whole or not at all."""
    with atomic_write(path) as out:
        for sentence in sentences:
            out.write(format_sentence(sentence))


def format_sentence(sentence: Sentence) -> str:
    """The lines of a sentence and the blank one after it; a ``ValueError`` for a line with a line end in it."""
    for line in sentence.lines:
        if holds_line_end(line):
            raise ValueError(f"the line {quoted(line)} holds a line end, which would part it in two; replace that")
    return "\n".join(sentence.lines) + "\n\n"


def make_sentence(
    forms: Sequence[str],
    coarse: Sequence[str],
    fine: Sequence[str] | None = None,
    heads: Sequence[int | None] | None = None,
    relations: Sequence[str] | None = None,
) -> Sentence:
    """A sentence that comes from no file; a head that is None or -1 is not known.

    >>> print(*make_sentence(["Hello", "world"], ["INTJ", "NOUN"], heads=[2, 0]).lines, sep="\\n")
    1	Hello	_	INTJ	_	_	2	_	_	_
    2	world	_	NOUN	_	_	0	_	_	_
    """
    blank = [EMPTY] * len(forms)
    texts = [
        [str(number + 1) for number in range(len(forms))], forms, blank, coarse, fine or blank, blank,
        blank if heads is None else [EMPTY if head is None or head == NO_HEAD else str(int(head)) for head in heads],
        relations or blank, blank, blank,
    ]  # fmt: skip
    lines = ["\t".join(columns) for columns in zip(*texts, strict=True)]
    return _sentence(lines, "<given>", 1)


def _noted(column: str, note: str) -> str:
    """The last column with a note, which takes the place of one of the same key."""
    key = note.partition("=")[0] + "="
    others = [] if column == EMPTY else [other for other in column.split("|") if not other.startswith(key)]
    return "|".join([*others, note])


def check_tree(sentence: Sentence, *, single_root: bool = False, partial: bool = False) -> None:
    """A :class:`FormatError` with the line if heads are missing (unless ``partial``) or form no tree. O(n)."""
    heads = sentence.heads
    for word, head in enumerate(heads, 1):
        if head == NO_HEAD and not partial:
            _fail(sentence.where, sentence.line_of(word), f"word {word} has no head; column 7 must be a number here")
    found = find_cycle(heads)
    if len(found) == 1:
        _fail(sentence.where, sentence.line_of(found[0]), f"word {found[0]} is its own head")
    if found:
        words = " -> ".join(str(word) for word in (*found, found[0]))
        _fail(sentence.where, sentence.line_of(found[0]), f"heads form a cycle: {words}")
    roots = [word for word, head in enumerate(heads, 1) if head == 0]
    if single_root and len(roots) > 1:
        _fail(
            sentence.where,
            sentence.line_of(roots[1]),
            f"words {roots[0]} and {roots[1]} both have the head 0; allow several roots, or give the sentence one",
        )


def find_cycle(heads: Sequence[int]) -> list[int]:
    """The words of a cycle, each followed by its head, the least first; empty if there is none."""
    seen = [0] * (len(heads) + 1)  # by which walk
    for start in range(1, len(heads) + 1):
        word = start
        while word > 0 and not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if word > 0 and seen[word] == start:
            cycle = [word]
            while heads[cycle[-1] - 1] != word:
                cycle.append(heads[cycle[-1] - 1])
            least = cycle.index(min(cycle))
            return cycle[least:] + cycle[:least]
    return []


def _sentence(lines: list[str], where: str, first: int) -> Sentence:
    places: list[int] = []
    words: list[tuple[str, ...]] = []
    spans: list[tuple[int, int, str]] = []
    empty_after = (0, 0)  # the empty node that came last: after which word, and its number there
    for place, line in enumerate(lines):
        if line.startswith("#"):
            continue
        number = first + place
        columns = tuple(line.split("\t"))
        if len(columns) != COLUMNS:
            _fail(where, number, f"{len(columns)} columns where there must be {COLUMNS}, separated by tabs")
        if "" in columns:
            _fail(where, number, f"column {columns.index('') + 1} is empty; write _ where there is nothing")
        identifier = columns[0]
        if is_whole(identifier):
            if whole_in(identifier) != len(words) + 1:
                _fail(where, number, f"the id is {shortened(identifier)} where {len(words) + 1} comes next")
            places.append(place)
            words.append(columns)
        elif "-" in identifier:
            spans.append(_span(identifier, columns[FORM], len(words), spans, where, number))
        elif "." in identifier:
            empty_after = _empty_node(identifier, len(words), empty_after, where, number)
        else:
            _fail(where, number, f"the id {quoted(identifier)} is no number, range (3-4) or empty node (5.1)")
    if spans and spans[-1][1] > len(words):
        last = spans[-1]
        _fail(where, first, f"the multiword token {last[0]}-{last[1]} ends after the last word, {len(words)}")
    heads = [_head(word, len(words), where, first + place) for place, word in zip(places, words, strict=True)]
    return Sentence(tuple(lines), tuple(places), tuple(words), tuple(heads), tuple(spans), where, first)


def _head(word: tuple[str, ...], count: int, where: str, line: int) -> int:
    text = word[HEAD]
    if text == EMPTY:
        return NO_HEAD
    if not is_whole(text):
        _fail(where, line, f"the head {quoted(text)} is neither a number nor _")
    head = whole_in(text)
    if head is None or head > count:
        _fail(where, line, f"the head {shortened(text)} is out of range; the sentence has {count} words")
    return head


def _span(
    identifier: str, form: str, words: int, spans: list[tuple[int, int, str]], where: str, line: int
) -> tuple[int, int, str]:
    begin, end = (whole_in(part) for part in (*identifier.split("-", 1), "")[:2])
    if begin is None or end is None or begin != words + 1 or end < begin:
        _fail(where, line, f"the multiword token {quoted(identifier)} must begin at the next word, {words + 1}")
    if spans and spans[-1][1] >= begin:
        _fail(where, line, f"the multiword token {identifier} begins inside {spans[-1][0]}-{spans[-1][1]}")
    return begin, end, form


def _empty_node(identifier: str, words: int, before: tuple[int, int], where: str, line: int) -> tuple[int, int]:
    after, number = (whole_in(part) for part in (*identifier.split(".", 1), "")[:2])
    expected = before[1] + 1 if before[0] == words else 1
    if (after, number) != (words, expected):
        _fail(where, line, f"the empty node {quoted(identifier)} stands where {words}.{expected} would")
    return words, expected


def _fail(where: str, line: int, problem: str) -> NoReturn:
    raise FormatError(where, line, problem)
