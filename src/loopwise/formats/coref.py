"""Coreference in files: CoNLL-U with ``Entity=`` (GUM, CorefUD) and the columns of CoNLL-2012 (OntoGUM too).

In: a file, plain or ``.gz``, or standard input. Out: :class:`CorefDocument`, which keeps every line as it was; and
back, with other entities. Mentions are brackets around words, ``(4-person ... 4)`` or ``(4 ... 4)``; they may nest and
cross. A closing bracket belongs to the last open one of its entity, so that crossing mentions of *one* entity cannot be
told from nested ones: neither format can say it, and such entities are refused where they would be written. What
separates lines and columns: :mod:`loopwise.formats.lines`.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loopwise.formats.conllu import MISC, Sentence, format_sentence, parse_conllu
from loopwise.formats.coref_brackets import Brackets, Mark
from loopwise.formats.coref_brackets import MentionSpan as MentionSpan
from loopwise.formats.errors import FormatError, quoted
from loopwise.formats.files import PathLike, atomic_write, display_name, read_text
from loopwise.formats.lines import SPACES, is_blank, split_cells, split_lines
from loopwise.lazy import old_names
from loopwise.notebook import Shown
from loopwise.notices import DataWarning, warn

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
class CorefDocument(Shown):
    """Words, sentences and mentions. Mentions are in order of first word, longer ones first.

    ``sentence_start`` ``[sentences + 1]``: where sentences begin. ``trees``: the sentences of a CoNLL-U file, else
    none. ``tags``: part-of-speech tags (Penn's), where a column file has them. ``speakers``: of each sentence, "" where
    unknown.
    """

    name: str
    words: tuple[str, ...]
    sentence_start: tuple[int, ...]
    mentions: tuple[MentionSpan, ...]
    trees: tuple[Sentence, ...] = ()
    tags: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()  # of a column file, up to the next document
    places: tuple[int, ...] = ()  # the line of each word
    marks: tuple[Mark, ...] = ()
    separator: str = ""  # between brackets: CoNLL-2012 has a bar
    passed_over: tuple[int, ...] = ()  # words with brackets that have no partner

    def entities(self) -> list[int]:
        """The entity of each mention, numbered in order of appearance."""
        known: dict[str, int] = {}
        return [known.setdefault(mention.entity, len(known)) for mention in self.mentions]

    def text(self, mention: MentionSpan) -> str:
        """The words of a mention."""
        return " ".join(self.words[mention.first : mention.last + 1])

    def with_entities(self, entities: Sequence[int]) -> CorefDocument:
        """The same mentions in other entities, numbered from 1 in order of appearance; all else is left as it is.

        A ``ValueError`` for entities that would be read back as other mentions (:meth:`unwritable`).
        """
        if len(entities) != len(self.mentions):
            raise ValueError(
                f"{self.name} has {len(self.mentions)} mentions; {len(entities)} entities do not fit; "
                "give one for each mention"
            )
        for mention in self.unwritable(entities)[:1]:
            span = self.mentions[mention]
            raise ValueError(
                f"{self.name}: the mention {quoted(self.text(span))} (words {span.first} to {span.last}) crosses "
                "another one of its entity, or has the same words, which the file's format cannot say; give it "
                "another entity"
            )
        known: dict[int, str] = {}
        names = [known.setdefault(int(entity), str(len(known) + 1)) for entity in entities]
        mentions = tuple(
            dataclasses.replace(mention, entity=name) for mention, name in zip(self.mentions, names, strict=True)
        )
        written: dict[int, list[Mark]] = {}
        for mark in self.marks:
            written.setdefault(mark.word, []).append(mark)
        texts = dict.fromkeys(self.passed_over, "")  # what has no partner is not written again
        texts |= {word: self._brackets(marks, names) for word, marks in written.items()}
        if self.trees:
            return dataclasses.replace(self, mentions=mentions, trees=tuple(self._marked_trees(texts)))
        lines = list(self.lines)
        for word, text in texts.items():
            lines[self.places[word]] = _with_last_column(lines[self.places[word]], text or _NOTHING[0])
        return dataclasses.replace(self, mentions=mentions, lines=tuple(lines))

    def unwritable(self, entities: Sequence[int]) -> list[int]:
        """The mentions that no file can show in these entities: they cross an earlier one of the same entity (begin
        inside it and end after it), or have the same words as one. O(mentions)."""
        inside: dict[int, list[int]] = {}  # of each entity, where the mentions that are open end, the first last
        seen: set[tuple[int, int, int]] = set()
        found = []
        for number, (mention, given) in enumerate(zip(self.mentions, entities, strict=True)):
            entity = int(given)
            ends = inside.setdefault(entity, [])
            while ends and ends[-1] <= mention.first:
                ends.pop()
            if (entity, mention.first, mention.last) in seen or (ends and ends[-1] < mention.last):
                found.append(number)
                continue
            seen.add((entity, mention.first, mention.last))
            ends.append(mention.last)
        return found

    def _brackets(self, marks: Sequence[Mark], names: Sequence[str]) -> str:
        """The brackets at a word. Their order is the file's, unless one would then close another mention of its entity:
        those that close come first then, and those that open last, the longest before the others."""
        open_end: dict[str, int] = {}  # of the mention of each entity that this word has opened last
        for mark in marks:
            name = names[mark.mention]
            alone = mark.opens and mark.closes
            if not alone and name in open_end and (mark.closes or open_end[name] < self.mentions[mark.mention].last):
                marks = sorted(marks, key=self._rank)
                break
            if mark.opens and not alone:
                open_end[name] = self.mentions[mark.mention].last
        pieces = []
        for mark in marks:
            name = names[mark.mention]
            inside = f"{mark.before}{name}{mark.after}" if mark.opens else name
            pieces.append(f"{'(' if mark.opens else ''}{inside}{')' if mark.closes else ''}")
        return self.separator.join(pieces)

    def _rank(self, mark: Mark) -> tuple[int, int]:
        opens = mark.opens and not mark.closes
        return (2, -self.mentions[mark.mention].last) if opens else (int(mark.opens), 0)

    def _marked_trees(self, texts: dict[int, str]) -> Iterator[Sentence]:
        for start, sentence in zip(self.sentence_start, self.trees, strict=False):
            lines, words = list(sentence.lines), list(sentence.words)
            for number, place in enumerate(sentence.places):
                if start + number in texts:
                    columns = list(words[number])
                    items = columns[MISC].split("|")
                    first = next(place for place, item in enumerate(items) if item.startswith(_ENTITY))
                    items[first] = _ENTITY + texts[start + number]
                    kept = [item for place, item in enumerate(items) if place <= first or not item.startswith(_ENTITY)]
                    if not texts[start + number]:
                        kept = [item for item in kept if not item.startswith(_ENTITY)]
                    columns[MISC] = "|".join(kept) or _NOTHING[0]
                    words[number], lines[place] = tuple(columns), "\t".join(columns)
            yield dataclasses.replace(sentence, lines=tuple(lines), words=tuple(words))


# ------------------------------------------------------------------------------------------------ reading, writing


def read_coref(path: PathLike, *, skip_bad: bool = False) -> list[CorefDocument]:
    """The documents of a file of either format, told apart by their first line; ``-`` is standard input.

    A bracket that closes nothing, is never closed, or closes twice over the same words is an error with its line. With
    ``skip_bad`` brackets that close nothing or are never closed are passed over, with one warning that names the
    first and its document; all else is read. O(characters).
    """
    text, where = read_text(path), display_name(path)
    lines = split_lines(text, where)
    head = itertools.takewhile(lambda line: is_blank(line) or line.startswith("#"), lines)
    damaged: list[FormatError] | None = [] if skip_bad else None
    columns = any(map(_BEGIN.match, head))
    found = list(_columns(lines, where, damaged) if columns else parse_documents(text, where, damaged))
    if damaged:
        warn(
            f"{len(damaged)} brackets have no partner and are passed over: {'; '.join(map(str, damaged[:3]))}",
            DataWarning,
        )
    return found


def write_coref(path: PathLike, documents: Iterable[CorefDocument]) -> None:
    """Writes documents in the format they came in, with every line that they were read from; whole or not at all."""
    with atomic_write(path) as out:
        for document in documents:
            if document.trees:
                out.writelines(format_sentence(sentence) for sentence in document.trees)
            else:
                out.writelines(f"{line}\n" for line in document.lines)


def write_entities(path: PathLike, documents: Sequence[CorefDocument], answers: Iterable[Sequence[int]]) -> None:
    """Writes documents with other entities. A mention that the format cannot show in its entity
    (:meth:`CorefDocument.unwritable`) becomes an entity of its own, with one warning that counts these."""
    written, alone = [], 0
    for document, answer in zip(documents, answers, strict=True):
        entities = [int(entity) for entity in answer]
        for mention in document.unwritable(entities):
            entities[mention] = max(entities) + 1
            alone += 1
        written.append(document.with_entities(entities))
    if alone:
        warn(
            f"{alone} mentions cross another one of their entity, or have the same words, which "
            "the file's format cannot say; each of them is written as an entity of its own",
            DataWarning,
        )
    write_coref(path, written)


# -------------------------------------------------------------------------------------------------------- CoNLL-U


def parse_documents(
    text: str, where: str = "<text>", damaged: list[FormatError] | None = None
) -> Iterator[CorefDocument]:
    """The documents of a CoNLL-U text; ``where`` is how messages call it.

    ``damaged``: a list that takes what is wrong with brackets that have no partner; without one it is raised.
    """
    sentences: list[Sentence] = []
    fields: list[str] = ["GRP", "etype"]
    name = where
    for sentence in parse_conllu(text, where):
        for line in sentence.lines:
            started = _NEW.match(line)
            if started:
                if sentences:
                    yield _of_trees(name, sentences, fields, where, damaged)
                    sentences = []
                name = started[1] or where
            header = _HEADER.match(line)
            if header:
                fields = header[1].split("-")
        sentences.append(sentence)
    if sentences:
        yield _of_trees(name, sentences, fields, where, damaged)


def _of_trees(
    name: str, sentences: list[Sentence], fields: Sequence[str], where: str, damaged: list[FormatError] | None
) -> CorefDocument:
    brackets = Brackets(where, fields, skip_bad=damaged is not None)
    words, starts, speakers = list[str](), [0], list[str]()
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
    _note(brackets, name, damaged)
    spans, marks = brackets.sorted()
    return CorefDocument(
        name,
        tuple(words),
        tuple(starts),
        spans,
        tuple(sentences),
        speakers=tuple(speakers),
        marks=marks,
        passed_over=tuple(sorted(brackets.passed_over)),
    )


# -------------------------------------------------------------------------------------------------------- columns


def _note(brackets: Brackets, name: str, damaged: list[FormatError] | None) -> None:
    """Adds what was passed over in a document to the list, with its name."""
    if damaged is not None:
        damaged.extend(FormatError(one.path, one.line, f"{one.problem} (in {name})") for one in brackets.damaged)


def _columns(lines: Sequence[str], where: str, damaged: list[FormatError] | None) -> Iterator[CorefDocument]:
    """A document has all lines up to the beginning of the next; the first has those before it too."""
    begins = [place for place, line in enumerate(lines) if _BEGIN.match(line)]
    starts = [0, *begins[1:], len(lines)]
    for begin, start, stop in zip(begins, starts, starts[1:], strict=False):
        yield _of_columns(lines[start:stop], begin - start, start + 1, where, damaged)


def _of_columns(
    lines: Sequence[str], begin: int, first: int, where: str, damaged: list[FormatError] | None
) -> CorefDocument:
    begins = _BEGIN.match(lines[begin])
    assert begins is not None
    name = begins[1].strip("();") or where
    brackets = Brackets(where, ["GRP"], skip_bad=damaged is not None)
    words, tags, speakers = list[str](), list[str](), list[str]()
    places, starts, said = list[int](), [0], list[str]()
    bars = ended = False
    for place, line in enumerate(lines):
        if line.startswith("#"):
            ended = ended or bool(_END.match(line))
            continue
        if is_blank(line):
            if starts[-1] < len(words):
                starts.append(len(words))
            continue
        if ended or place < begin:
            raise FormatError(
                where, first + place, "the line is outside of any document; '# begin document NAME' comes first"
            )
        columns, long = _split(line, where, first + place)
        if columns[-1] not in _NOTHING:
            bars = bars or "|" in columns[-1]
            brackets.add(columns[-1], len(words), first + place)
        words.append(columns[3] if long else columns[1])
        tags.append(columns[4] if long else "")
        said.append(columns[9] if long and columns[9] not in _NOTHING else "")
        places.append(place)
    brackets.check_closed("document")
    _note(brackets, name, damaged)
    if starts[-1] < len(words):
        starts.append(len(words))
    if len(starts) == 2:  # the file does not say where sentences end
        ends = {number + 1 for number, word in enumerate(words) if word in _SENTENCE_ENDS}
        starts = [0, *sorted(ends | {len(words)})]
    speakers = [said[start] for start in starts[:-1]]
    spans, marks = brackets.sorted()
    return CorefDocument(
        name,
        tuple(words),
        tuple(starts),
        spans,
        tags=tuple(tags) if any(tags) else (),
        speakers=tuple(speakers),
        lines=tuple(lines),
        places=tuple(places),
        marks=marks,
        separator="|" if bars else "",
        passed_over=tuple(sorted(brackets.passed_over)),
    )


def _split(line: str, where: str, number: int) -> tuple[list[str], bool]:
    columns = split_cells(line, tabs="\t" in line)
    if len(columns) != _SHORT and len(columns) < _LONG:
        raise FormatError(
            where,
            number,
            f"{len(columns)} columns; there must be {_SHORT} (number, word, brackets) or {_LONG} and more",
        )
    return columns, len(columns) >= _LONG


def _with_last_column(line: str, text: str) -> str:
    """The line with another last column, as :func:`_split` finds it; the rest is left as it is."""
    end = len(line.rstrip(SPACES))
    begin = max(line.rfind(space, 0, end) for space in ("\t" if "\t" in line else SPACES)) + 1
    begin += len(line[begin:end]) - len(line[begin:end].lstrip(SPACES))
    return line[:begin] + text + line[end:]


__getattr__ = old_names(__name__, {"Span": "MentionSpan"})
