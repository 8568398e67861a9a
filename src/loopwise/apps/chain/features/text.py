"""Sentences as integers: every distinct word once, and which of them each token is; tags as numbers.

In: lists of words, a list a sentence, of dicts or lists of features, or a column file. Out: :class:`Text`;
:class:`Known`, what is known of its tags. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain.features.documents import Documents
from loopwise.apps.chain.features.items import Items, are_items
from loopwise.apps.partial import choices_of, is_unknown
from loopwise.formats.columns import BrokenTagsWarning, TaggedText, read_words, split
from loopwise.formats.errors import listed, quoted, shortened
from loopwise.formats.iob import OUTSIDE, Coding, TagError, TagSet, broken_places, guess_coding
from loopwise.graph.offsets import starts_of
from loopwise.notices import warn
from loopwise.potentials.linear import Flags, Integers, equal_parts

Sentences: TypeAlias = "Sequence[Sequence[Any]] | TaggedText | str | os.PathLike[str]"
WORD = "w"  # what a dict calls the word


@dataclass(frozen=True, eq=False)
class Column:
    """Token ``t`` has ``values[number[t]]``, or nothing where the number is -1."""

    values: tuple[str, ...]  # distinct
    number: NDArray[np.int32]  # [tokens]

    @staticmethod
    def of(given: Sequence[Any]) -> Column:
        """Of what each token has: text, None or False for nothing, anything else as it is written."""
        number: dict[str, int] = {}
        places = np.full(len(given), -1, dtype=np.int32)
        for place, value in enumerate(given):
            if value is not None and value is not False:
                places[place] = number.setdefault(str(value), len(number))
        return Column(tuple(number), places)


@dataclass(frozen=True, eq=False)
class Text:
    """Token ``t`` is the word ``words[word[t]]``; sentence ``s`` is tokens ``start[s]`` to ``start[s + 1] - 1``.

    ``columns``: what else is said of each token. ``items``: the features of each token, if it came with these; there
    are no words then, unless columns are wanted. ``document`` ``[sentences]``: which document each belongs to, if that
    is known.
    """

    words: tuple[str, ...]  # distinct
    word: NDArray[np.int32]  # [tokens]
    start: Integers  # [sentences + 1]
    columns: Mapping[str, Column] = field(default_factory=dict)
    items: Items | None = None
    document: Integers | None = None

    @staticmethod
    def of(sentences: Sentences, columns: Sequence[str] = (), *, items: bool = False, words: bool = False) -> Text:
        """From lists of words, a text that was read, or a column file.

        ``columns``: those that are wanted. ``items``: tokens that are dicts or lists are features as they are;
        otherwise dicts hold the word, under ``"w"``, and columns. ``words``: words and columns are wanted beside
        features.
        """
        if isinstance(sentences, str | os.PathLike):
            check_file(sentences)
            sentences = read_words(sentences, extra=columns)
        if isinstance(sentences, TaggedText):
            found = Text._of_words(sentences.words, sentences.start, _file_columns(sentences, columns))
            return replace(found, document=sentences.document)
        document = sentences.document if isinstance(sentences, Documents) else None
        sentences = as_lists("sentences", sentences)
        for number, sentence in enumerate(sentences):
            if isinstance(sentence, str | Mapping):
                raise ValueError(
                    f"sentence {number} is the {'text' if isinstance(sentence, str) else 'dict'} "
                    f"{shortened(repr(sentence))}; give each sentence as a list of words"
                )
        start, tokens = _starts(sentences), [token for sentence in sentences for token in sentence]
        if tokens and are_items(tokens[0]):
            own = Items.of(sentences) if items else None
            if items and not words:
                return Text((), np.zeros(len(tokens), np.int32), start, items=own, document=document)
            named, found_columns = _of_dicts(tokens, columns)
            return replace(Text._of_words(named, start, found_columns), items=own, document=document)
        return replace(Text._of_words(tokens, start, _no_columns(columns)), document=document)

    @staticmethod
    def _of_words(tokens: Sequence[str], start: Integers, columns: Mapping[str, Column]) -> Text:
        number: dict[str, int] = {}
        places = np.empty(len(tokens), dtype=np.int32)
        for place, token in enumerate(tokens):
            if not isinstance(token, str):
                raise ValueError(f"word {place} of the text is {shortened(repr(token))}; words must be text")
            places[place] = number.setdefault(token, len(number))
        return Text(tuple(number), places, start, columns)

    def __len__(self) -> int:
        """How many sentences."""
        return len(self.start) - 1

    @property
    def tokens(self) -> int:
        return len(self.word)

    def parts(self, count: int) -> list[tuple[int, int]]:
        """Ranges of sentences, at most ``count``, of about equal numbers of tokens."""
        return equal_parts(self.start, count)


def check_file(path: str | os.PathLike[str]) -> None:
    """A ValueError for a text that was given where a file is wanted."""
    if isinstance(path, str) and any(map(str.isspace, path)) and not os.path.exists(path):
        raise ValueError(
            f"there is no file {quoted(path)}; a text is given as lists of words: [{shortened(repr(path.split()))}]"
        )


def as_lists(what: str, given: Any) -> Sequence[Sequence[Any]]:
    """Lists of words or tags, one a sentence; anything else is named in a ValueError."""
    if isinstance(given, Iterator):
        raise ValueError(f"{what} are read more than once, and an iterator is empty after that: give list({what})")
    if not isinstance(given, Sequence | np.ndarray) or (
        isinstance(given, np.ndarray) and given.dtype.kind not in "OUS"
    ):
        raise ValueError(f"{what} must be lists of text, a list a sentence, not {type(given).__name__}")
    return given  # type: ignore[return-value]


def _file_columns(text: TaggedText, wanted: Sequence[str]) -> dict[str, Column]:
    found = text.columns or {}
    missing = [name for name in wanted if name not in found]
    _no_columns(missing)
    return {name: Column.of(found[name]) for name in wanted}


def _no_columns(wanted: Sequence[str]) -> dict[str, Column]:
    """Nothing, where nothing is wanted."""
    if wanted:
        raise ValueError(
            f"the templates look at {listed(wanted)}, which the sentences do not have; read the file with these "
            f"columns (read_tagged(path, extra=[{quoted(wanted[0])}])), or give each token as a dict"
        )
    return {}


def _of_dicts(tokens: Sequence[Any], wanted: Sequence[str]) -> tuple[list[str], dict[str, Column]]:
    """The words and columns of tokens that are dicts."""
    for place, token in enumerate(tokens):
        if not isinstance(token, Mapping):
            raise ValueError(
                f"token {place} is {shortened(repr(token))}; templates look at dicts or at words: leave templates out "
                "where tokens are lists of features"
            )
    for name in wanted:
        if not any(name in token for token in tokens):
            raise ValueError(
                f"the templates look at {quoted(name)}, which no token has; its keys are {listed(tokens[0])}"
            )
    columns = {name: Column.of([token.get(name) for token in tokens]) for name in wanted}
    return [token.get(WORD, "") for token in tokens], columns


# --- Tags ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of tags: ``gold`` ``[tokens]``, -1 where not just one is possible; ``allowed`` ``[tokens, K]``.

    ``allowed`` is None where every tag is known.
    """

    gold: Integers
    allowed: Flags | None = None

    def mask(self, states: int) -> Flags:
        """``allowed``, also where every tag is known."""
        return self.gold[:, None] == np.arange(states) if self.allowed is None else self.allowed


def known_tags(tags: Sequence[Sequence[Any]] | TaggedText, text: Text, labels: Sequence[str]) -> Known:
    """Tags by number; a ValueError names what does not fit."""
    rows = _checked(tags, text)
    place = {label: number for number, label in enumerate(labels)}
    gold = np.empty(text.tokens, dtype=np.int64)
    partly: dict[int, Any] = {}
    token = 0
    for number, sentence in enumerate(rows):
        for tag in sentence:
            try:
                gold[token] = place[tag]
            except (KeyError, TypeError):
                gold[token] = -1
                partly[token] = _possible(tag, number, place)
            token += 1
    if not partly:
        return Known(gold)
    allowed = np.zeros((text.tokens, len(labels)), dtype=np.bool_)
    known = np.flatnonzero(gold >= 0)
    allowed[known, gold[known]] = True
    for token, numbers in partly.items():
        allowed[token, numbers] = True
        if len(numbers) == 1:
            gold[token] = numbers[0]
    return Known(gold, allowed)


def tag_numbers(tags: Sequence[Sequence[str]] | TaggedText, text: Text, labels: Sequence[str]) -> Integers:
    """The number of each token's tag among ``labels``, -1 where it is not known."""
    return known_tags(tags, text, labels).gold


def _possible(tag: Any, sentence: int, place: Mapping[str, int]) -> list[int]:
    """The numbers of the tags that a word may have."""
    if is_unknown(tag):
        return list(range(len(place)))
    choices = choices_of(tag)
    if choices is None or not choices:
        check_tag(tag, sentence)
        choices = [tag]
    for choice in choices:
        if choice not in place:
            check_tag(choice, sentence)
            raise ValueError(_unknown_tag(choice, sentence, list(place)))
    return sorted(place[choice] for choice in choices)


def _checked(tags: Sequence[Sequence[Any]] | TaggedText, text: Text) -> Sequence[Sequence[Any]]:
    """Tags as lists, one for each word."""
    rows = tags.tagged() if isinstance(tags, TaggedText) else as_lists("tags", tags)
    starts = _starts(rows)
    if len(starts) != len(text.start):
        raise ValueError(f"there are {len(text)} sentences but tags of {len(starts) - 1}; give tags for each")
    unequal = np.flatnonzero(starts != text.start)
    if unequal.size:
        number = int(unequal[0]) - 1
        raise ValueError(
            f"sentence {number} has {text.start[number + 1] - text.start[number]} words but {len(rows[number])} tags; "
            "give one for each word"
        )
    return rows


def labels_of(tags: Sequence[Sequence[Any]] | TaggedText) -> tuple[str, ...]:
    """The distinct tags: O first, the others in order of the alphabet."""
    rows = tags.tagged() if isinstance(tags, TaggedText) else as_lists("tags", tags)
    found: set[str] = set()
    for number, row in enumerate(rows):
        for tag in row:
            if isinstance(tag, str):
                found.add(tag)
            elif not is_unknown(tag):
                for choice in choices_of(tag) or (tag,):
                    check_tag(choice, number)
                    found.add(choice)
    if not found:
        raise ValueError("no tag is known, so there is nothing to learn; give some")
    return tuple(sorted(found, key=lambda tag: (tag != OUTSIDE, tag)))


def mended(tags: Sequence[Sequence[Any]] | TaggedText) -> tuple[Sequence[Sequence[Any]] | TaggedText, bool]:
    """The tags, and whether they are IOB2; an ``I`` that continues nothing is then ``B``, with a warning, as in files.

    Unknown tags may be anything, so what follows one continues it.
    """
    if isinstance(tags, TaggedText):
        return tags, tags.coding is Coding.IOB2
    rows = as_lists("tags", tags)
    labels = labels_of(rows)
    try:
        kinds = TagSet.of((*labels, OUTSIDE))
    except TagError:
        return tags, False
    number = {label: place for place, label in enumerate(labels)}
    flat = [tag for row in rows for tag in row]
    code = np.array([number[tag] if isinstance(tag, str) else len(labels) for tag in flat], dtype=np.int64)
    start = _starts(rows)
    if not len(code) or guess_coding(code, kinds, start) is not Coding.IOB2:
        return tags, False
    broken = broken_places(code, kinds, start)
    broken = np.array([place for place in broken.tolist() if not _after_unknown(place, flat, start)], dtype=np.int64)
    if not broken.size:
        return tags, True
    for place in broken.tolist():
        flat[place] = "B-" + flat[place].partition("-")[2]
    warn(
        f"{len(broken)} tags continue an entity that none began, the first in sentence "
        f"{int(np.searchsorted(start, broken[0], side='right')) - 1}; they are read as its beginning",
        BrokenTagsWarning,
    )
    return split(flat, start), True


def _after_unknown(place: int, flat: Sequence[Any], start: Integers) -> bool:
    return place > 0 and place not in start and not isinstance(flat[place - 1], str)


def check_tag(tag: object, sentence: int) -> None:
    """A ValueError unless a tag is text."""
    if not isinstance(tag, str):
        raise ValueError(
            f"sentence {sentence} has the tag {shortened(repr(tag))}; a tag is text, None where it is not known, or a "
            "set of the tags that it may be"
        )


def tag_lists(numbers: Integers, text: Text, labels: Sequence[str]) -> list[list[str]]:
    """Tags by name, a list a sentence."""
    return split([labels[number] for number in numbers.tolist()], text.start)


def _starts(sentences: Sequence[Sequence[Any]]) -> Integers:
    return starts_of([len(sentence) for sentence in sentences])


def _unknown_tag(tag: str, sentence: int, labels: Sequence[str]) -> str:
    close = get_close_matches(tag[:100], labels, 1)
    hint = f"did you mean {quoted(close[0])}?" if close else f"there are {listed(labels, 20)}"
    return f"sentence {sentence} has the tag {quoted(tag)}, which the tagger does not know; {hint}"
