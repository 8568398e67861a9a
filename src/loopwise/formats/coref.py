"""Coreference in files: CoNLL-U with ``Entity=`` (GUM, CorefUD) and the columns of CoNLL-2012 (OntoGUM too).

In: a file, plain or ``.gz``, or standard input. Out: :class:`CorefDocument`, which keeps every line as it was; and
back, with other entities. Mentions are brackets around words, ``(4-person ... 4)`` or ``(4 ... 4)``; they may nest and
cross. A closing bracket belongs to the last open one of its entity, so that crossing mentions of *one* entity cannot be
told from nested ones: neither format can say it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loopwise.formats.conllu import MISC, Sentence, format_sentence, parse_conllu
from loopwise.formats.coref_brackets import Brackets, Mark
from loopwise.formats.coref_brackets import Span as Span
from loopwise.formats.errors import FormatError
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text

_ENTITY = "Entity="
_BEGIN = re.compile(r"#\s*begin document\s*(.*?)\s*$")
_END = re.compile(r"#\s*end document")
_NEW = re.compile(r"#\s*newdoc(?:\s+id\s*=\s*(.*?))?\s*$")
_HEADER = re.compile(r"#\s*global\.Entity\s*=\s*(\S+)")
_SPEAKER = re.compile(r"#\s*speaker\s*=\s*(.*?)\s*$")
_NOTHING = ("_", "-", "*")
_SHORT, _LONG = 3, 12  # columns of OntoGUM, and at least of CoNLL-2012
_SENTENCE_ENDS = frozenset({".", "?", "!"})


@dataclass(frozen=True)
class CorefDocument:
    """Words, sentences and mentions. Mentions are in order of first word, longer ones first.

    ``sentence_start`` ``[sentences + 1]``: where sentences begin. ``trees``: the sentences of a CoNLL-U file, else
    none. ``tags``: part-of-speech tags (Penn's), where a column file has them. ``speakers``: of each sentence, "" where
    unknown.
    """

    name: str
    words: tuple[str, ...]
    sentence_start: tuple[int, ...]
    mentions: tuple[Span, ...]
    trees: tuple[Sentence, ...] = ()
    tags: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()  # of a column file, from begin to end
    places: tuple[int, ...] = ()  # the line of each word
    marks: tuple[Mark, ...] = ()
    separator: str = ""  # between brackets: CoNLL-2012 has a bar

    def entities(self) -> list[int]:
        """The entity of each mention, numbered in order of appearance."""
        known: dict[str, int] = {}
        return [known.setdefault(mention.entity, len(known)) for mention in self.mentions]

    def text(self, mention: Span) -> str:
        """The words of a mention."""
        return " ".join(self.words[mention.first : mention.last + 1])

    def with_entities(self, entities: Sequence[int]) -> CorefDocument:
        """The same mentions in other entities, numbered from 1 in order of appearance; all else is left as it is."""
        if len(entities) != len(self.mentions):
            raise ValueError(
                f"{self.name} has {len(self.mentions)} mentions; {len(entities)} entities do not fit; "
                "give one for each mention"
            )
        known: dict[int, str] = {}
        names = [known.setdefault(int(entity), str(len(known) + 1)) for entity in entities]
        mentions = tuple(
            dataclasses.replace(mention, entity=name) for mention, name in zip(self.mentions, names, strict=True)
        )
        written: dict[int, list[str]] = {}
        for mark in self.marks:
            inside = f"{mark.before}{names[mark.mention]}{mark.after}" if mark.opens else names[mark.mention]
            bracket = f"{'(' if mark.opens else ''}{inside}{')' if mark.closes else ''}"
            written.setdefault(mark.word, []).append(bracket)
        texts = {word: self.separator.join(pieces) for word, pieces in written.items()}
        if self.trees:
            return dataclasses.replace(self, mentions=mentions, trees=tuple(self._marked_trees(texts)))
        lines = list(self.lines)
        for word, text in texts.items():
            kept, _, _ = _last_column(lines[self.places[word]])
            lines[self.places[word]] = kept + text
        return dataclasses.replace(self, mentions=mentions, lines=tuple(lines))

    def _marked_trees(self, texts: dict[int, str]) -> Iterator[Sentence]:
        for start, sentence in zip(self.sentence_start, self.trees, strict=False):
            lines, words = list(sentence.lines), list(sentence.words)
            for number, place in enumerate(sentence.places):
                if start + number in texts:
                    columns = list(words[number])
                    items = columns[MISC].split("|")
                    columns[MISC] = "|".join(
                        _ENTITY + texts[start + number] if item.startswith(_ENTITY) else item for item in items
                    )
                    words[number], lines[place] = tuple(columns), "\t".join(columns)
            yield dataclasses.replace(sentence, lines=tuple(lines), words=tuple(words))


# ------------------------------------------------------------------------------------------------ reading, writing


def read_coref(path: PathLike) -> list[CorefDocument]:
    """The documents of a file of either format, told apart by their first line; ``-`` is standard input.

    A bracket that closes nothing, is never closed, or closes twice over the same words is an error with its line.
    O(characters).
    """
    text, where = read_text(path), display_name(path)
    first = next((line for line in text.split("\n") if line.strip()), "")
    return list(_columns(text, where) if _BEGIN.match(first) else parse_documents(text, where))


def write_coref(path: PathLike, documents: Iterable[CorefDocument]) -> None:
    """Writes documents in the format they came in; whole or not at all."""
    with atomic_write(path) as out:
        for document in documents:
            if document.trees:
                out.writelines(format_sentence(sentence) for sentence in document.trees)
            else:
                out.write("\n".join(document.lines) + "\n\n")


# -------------------------------------------------------------------------------------------------------- CoNLL-U


def parse_documents(text: str, where: str = "<text>") -> Iterator[CorefDocument]:
    """The documents of a CoNLL-U text; ``where`` is how messages call it."""
    sentences: list[Sentence] = []
    fields: list[str] = ["GRP", "etype"]
    name = where
    for sentence in parse_conllu(text, where):
        for line in sentence.lines:
            started = _NEW.match(line)
            if started:
                if sentences:
                    yield _of_trees(name, sentences, fields, where)
                    sentences = []
                name = started[1] or where
            header = _HEADER.match(line)
            if header:
                fields = header[1].split("-")
        sentences.append(sentence)
    if sentences:
        yield _of_trees(name, sentences, fields, where)


def _of_trees(name: str, sentences: list[Sentence], fields: Sequence[str], where: str) -> CorefDocument:
    brackets, words, starts, speakers = Brackets(where, fields), list[str](), [0], list[str]()
    for sentence in sentences:
        for number, columns in enumerate(sentence.words, 1):
            if _ENTITY in columns[MISC]:
                for item in columns[MISC].split("|"):
                    if item.startswith(_ENTITY):
                        brackets.add(item[len(_ENTITY) :], len(words), sentence.line_of(number))
            words.append(columns[1])
        brackets.check_closed("sentence")
        starts.append(len(words))
        found = [match[1] for match in map(_SPEAKER.match, sentence.lines) if match]
        speakers.append(found[0] if found else "")
    spans, marks = brackets.sorted()
    return CorefDocument(
        name, tuple(words), tuple(starts), spans, tuple(sentences), speakers=tuple(speakers), marks=marks
    )


# -------------------------------------------------------------------------------------------------------- columns


def _columns(text: str, where: str) -> Iterator[CorefDocument]:
    block: list[str] = []
    first, inside = 1, False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.removesuffix("\r")
        begins = _BEGIN.match(line)
        if begins:
            if inside:
                yield _of_columns(block, first, where)
            block, first, inside = [line], number, True
        elif inside:
            block.append(line)
            if _END.match(line):
                yield _of_columns(block, first, where)
                inside = False
        elif line.strip() and not line.startswith("#"):
            raise FormatError(where, number, "the line is outside of any document; '# begin document NAME' comes first")
    if inside:
        yield _of_columns(block, first, where)


def _of_columns(lines: list[str], first: int, where: str) -> CorefDocument:
    begins = _BEGIN.match(lines[0])
    assert begins is not None
    brackets, words, tags, speakers = Brackets(where, ["GRP"]), list[str](), list[str](), list[str]()
    places, starts, said = list[int](), [0], list[str]()
    bars = False
    for place, line in enumerate(lines):
        if line.startswith("#"):
            continue
        if not line.strip():
            if starts[-1] < len(words):
                starts.append(len(words))
            continue
        columns, long = _split(line, where, first + place)
        if columns[-1] not in _NOTHING:
            bars = bars or "|" in columns[-1]
            brackets.add(columns[-1], len(words), first + place)
        words.append(columns[3] if long else columns[1])
        tags.append(columns[4] if long else "")
        said.append(columns[9] if long and columns[9] not in _NOTHING else "")
        places.append(place)
    brackets.check_closed("document")
    if starts[-1] < len(words):
        starts.append(len(words))
    if len(starts) == 2:  # the file does not say where sentences end
        ends = {number + 1 for number, word in enumerate(words) if word in _SENTENCE_ENDS}
        starts = [0, *sorted(ends | {len(words)})]
    speakers = [said[start] for start in starts[:-1]]
    spans, marks = brackets.sorted()
    return CorefDocument(
        begins[1].strip("();") or where,
        tuple(words),
        tuple(starts),
        spans,
        tags=tuple(tags) if any(tags) else (),
        speakers=tuple(speakers),
        lines=tuple(lines),
        places=tuple(places),
        marks=marks,
        separator="|" if bars else "",
    )


def _split(line: str, where: str, number: int) -> tuple[list[str], bool]:
    columns = line.split("\t") if "\t" in line else line.split()
    if len(columns) != _SHORT and len(columns) < _LONG:
        raise FormatError(
            where,
            number,
            f"{len(columns)} columns; there must be {_SHORT} (number, word, brackets) or {_LONG} and more",
        )
    return columns, len(columns) >= _LONG


def _last_column(line: str) -> tuple[str, str, str]:
    """What comes before the last column, and that column."""
    match = re.match(r"(.*[\t ])(\S+)(\s*)$", line)
    assert match is not None
    return match[1], match[2], match[3]
