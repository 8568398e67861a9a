"""Sentences as integers: every distinct word once, and which of them each token is.

In: lists of words, a list a sentence, or a column file. Out: :class:`Text`; tags as numbers. Stage: use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.columns import TaggedText, read_words, split
from loopwise.formats.quoting import listed, quoted, shortened
from loopwise.potentials.linear import Integers, equal_parts

Sentences: TypeAlias = "Sequence[Sequence[str]] | TaggedText | str | os.PathLike[str]"


@dataclass(frozen=True, eq=False)
class Text:
    """Token ``t`` is the word ``words[word[t]]``; sentence ``s`` is tokens ``start[s]`` to ``start[s + 1] - 1``."""

    words: tuple[str, ...]  # distinct
    word: NDArray[np.int32]  # [tokens]
    start: Integers  # [sentences + 1]

    @staticmethod
    def of(sentences: Sentences) -> Text:
        """From lists of words, a text that was read, or a column file."""
        if isinstance(sentences, str | os.PathLike):
            sentences = read_words(sentences)
        if isinstance(sentences, TaggedText):
            return Text._of_tokens(sentences.words, sentences.start)
        sentences = as_lists("sentences", sentences)
        for number, sentence in enumerate(sentences):
            if isinstance(sentence, str):
                raise ValueError(
                    f"sentence {number} is the text {quoted(sentence)}; give each sentence as a list of words"
                )
        start = _starts(sentences)
        return Text._of_tokens([word for sentence in sentences for word in sentence], start)

    @staticmethod
    def _of_tokens(tokens: Sequence[str], start: Integers) -> Text:
        number: dict[str, int] = {}
        places = np.empty(len(tokens), dtype=np.int32)
        for place, token in enumerate(tokens):
            if not isinstance(token, str):
                raise ValueError(f"word {place} of the text is {shortened(repr(token))}; words must be text")
            places[place] = number.setdefault(token, len(number))
        return Text(tuple(number), places, start)

    def __len__(self) -> int:
        """How many sentences."""
        return len(self.start) - 1

    @property
    def tokens(self) -> int:
        return len(self.word)

    def parts(self, count: int) -> list[tuple[int, int]]:
        """Ranges of sentences, at most ``count``, of about equal numbers of tokens."""
        return equal_parts(self.start, count)


def as_lists(what: str, given: Any) -> Sequence[Sequence[str]]:
    """Lists of words or tags, one a sentence; anything else is named in a ValueError."""
    if isinstance(given, Iterator):
        raise ValueError(f"{what} are read more than once, and an iterator is empty after that: give list({what})")
    if not isinstance(given, Sequence | np.ndarray) or (
        isinstance(given, np.ndarray) and given.dtype.kind not in "OUS"
    ):
        raise ValueError(f"{what} must be lists of text, a list a sentence, not {type(given).__name__}")
    return given  # type: ignore[return-value]


def tag_numbers(tags: Sequence[Sequence[str]] | TaggedText, text: Text, labels: Sequence[str]) -> Integers:
    """The number of each token's tag among ``labels``; a ValueError names what does not fit."""
    tags = tags.tagged() if isinstance(tags, TaggedText) else as_lists("tags", tags)
    starts = _starts(tags)
    if len(starts) != len(text.start):
        raise ValueError(f"there are {len(text)} sentences but tags of {len(starts) - 1}; give tags for each")
    unequal = np.flatnonzero(starts != text.start)
    if unequal.size:
        number = int(unequal[0]) - 1
        raise ValueError(
            f"sentence {number} has {text.start[number + 1] - text.start[number]} words but {len(tags[number])} tags; "
            "give one for each word"
        )
    place = {label: number for number, label in enumerate(labels)}
    found = np.empty(text.tokens, dtype=np.int64)
    token = 0
    for number, sentence in enumerate(tags):
        for tag in sentence:
            if tag not in place:
                check_tag(tag, number)
                raise ValueError(_unknown_tag(tag, number, labels))
            found[token] = place[tag]
            token += 1
    return found


def check_tag(tag: object, sentence: int) -> None:
    """A ValueError unless a tag is text."""
    if not isinstance(tag, str):
        raise ValueError(
            f"sentence {sentence} has the tag {shortened(repr(tag))}; every word needs a tag, which is text: leave out "
            "sentences whose tags are not all known"
        )


def tag_lists(numbers: Integers, text: Text, labels: Sequence[str]) -> list[list[str]]:
    """Tags by name, a list a sentence."""
    return split([labels[number] for number in numbers.tolist()], text.start)


def _starts(sentences: Sequence[Sequence[str]]) -> Integers:
    start = np.zeros(len(sentences) + 1, dtype=np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=start[1:])
    return start


def _unknown_tag(tag: str, sentence: int, labels: Sequence[str]) -> str:
    close = get_close_matches(tag[:100], labels, 1)
    hint = f"did you mean {quoted(close[0])}?" if close else f"there are {listed(labels, 20)}"
    return f"sentence {sentence} has the tag {quoted(tag)}, which the tagger does not know; {hint}"
