"""Brackets around words that mark mentions, in either format of coreference files.

In: the brackets at each word, with the line they stand in. Out: :class:`MentionSpan` and :class:`Mark`; a
:class:`FormatError` with the line for brackets that close nothing, are never closed, or enclose themselves: raised, or
kept in ``damaged`` where such brackets are to be passed over.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from loopwise.formats.errors import FormatError, quoted, shortened

_PIECE = re.compile(r"(\()?([^()|]+)(\))?\|?")
_UNKNOWN = "_"


@dataclass(frozen=True)
class MentionSpan:
    """A mention: its first and last word in the document, its entity's name, the entity's type ("" where unknown)."""

    first: int
    last: int
    entity: str
    kind: str = ""


@dataclass(frozen=True)
class Mark:
    """A bracket in the file: at which word, of which mention, with which fields around the entity's name."""

    word: int
    mention: int
    opens: bool
    closes: bool
    before: str = ""
    after: str = ""


class Brackets:
    """Collects the mentions of one document; ``fields`` name the parts of an opening bracket.

    ``skip_bad``: brackets without a partner are passed over, and what is wrong with them is kept in ``damaged``.
    """

    def __init__(self, where: str, fields: Sequence[str], *, skip_bad: bool = False) -> None:
        self.where, self.skip_bad = where, skip_bad
        self.damaged: list[FormatError] = []
        self.passed_over: set[int] = set()  # words with such brackets
        self.group = next((place for place, field in enumerate(fields) if field in ("GRP", "eid")), 0)
        self.kind = fields.index("etype") if "etype" in fields else None
        self.open: list[tuple[str, int, int]] = []  # entity, mention, line
        self.spans: list[MentionSpan] = []
        self.marks: list[Mark] = []
        self.seen: set[tuple[int, int, str]] = set()

    def add(self, text: str, word: int, line: int) -> None:
        """The brackets at a word."""
        end = 0
        for found in _PIECE.finditer(text):
            if found.start() != end or not (found[1] or found[3]):
                break
            end = found.end()
            self._piece(bool(found[1]), found[2], bool(found[3]), word, line)
        if end != len(text):
            raise FormatError(
                self.where,
                line,
                f"{quoted(text)} is no sequence of brackets such as (4, 4) or (4); see {quoted(text[end:])}",
            )

    def _piece(self, opens: bool, inside: str, closes: bool, word: int, line: int) -> None:
        if "[" in inside:
            raise FormatError(
                self.where, line, f"the mention {quoted(inside)} is in several parts, which are not read; join them"
            )
        if opens:
            fields = inside.split("-")
            if len(fields) <= self.group or not fields[self.group]:
                raise FormatError(self.where, line, f"the bracket ({shortened(inside)} names no entity")
            entity = fields[self.group]
            kind = fields[self.kind] if self.kind is not None and self.kind < len(fields) else ""
            before = "".join(f"{field}-" for field in fields[: self.group])
            after = "".join(f"-{field}" for field in fields[self.group + 1 :])
            mention = len(self.spans)
            self.spans.append(MentionSpan(word, -1, entity, "" if kind == _UNKNOWN else kind))
            self.open.append((entity, mention, line))
            self.marks.append(Mark(word, mention, True, closes, before, after))
        else:
            entity = inside
        if closes:
            self._close(entity, word, line, alone=opens)

    def _close(self, entity: str, word: int, line: int, *, alone: bool) -> None:
        place = next((place for place in range(len(self.open) - 1, -1, -1) if self.open[place][0] == entity), None)
        if place is None:
            self._wrong(word, line, f"the bracket {shortened(entity)}) closes a mention that was not opened before")
            return
        _, mention, _ = self.open.pop(place)
        span = self.spans[mention] = dataclasses.replace(self.spans[mention], last=word)
        if (span.first, word, entity) in self.seen:
            raise FormatError(
                self.where,
                line,
                f"entity {shortened(entity)} has the same words as a mention twice, each inside the other",
            )
        self.seen.add((span.first, word, entity))
        if not alone:
            self.marks.append(Mark(word, mention, False, True))

    def check_closed(self, what: str) -> None:
        """At the end of a sentence or document."""
        while self.open:
            entity, mention, line = self.open[-1]
            self._wrong(
                self.spans[mention].first,
                line,
                f"the bracket ({shortened(entity)} is not closed before the end of the {what}",
            )
            self.open.pop()

    def _wrong(self, word: int, line: int, what: str) -> None:
        """A bracket without a partner: an error, or passed over."""
        error = FormatError(self.where, line, what)
        if not self.skip_bad:
            raise error
        self.damaged.append(error)
        self.passed_over.add(word)

    def sorted(self) -> tuple[tuple[MentionSpan, ...], tuple[Mark, ...]]:
        """Mentions in order, and brackets that name them by it."""
        whole = [place for place, span in enumerate(self.spans) if span.last >= 0]
        order = sorted(whole, key=lambda place: (self.spans[place].first, -self.spans[place].last))
        rank = {place: number for number, place in enumerate(order)}
        kept = (mark for mark in self.marks if mark.mention in rank)
        marks = tuple(dataclasses.replace(mark, mention=rank[mark.mention]) for mark in kept)
        return tuple(self.spans[place] for place in order), marks
