"""What a template may look at in a word: its text, its shape, its ends, yes-or-no questions.

In: distinct words. Out: a value for each, or None where the word has none (a question answered no, a prefix of a
shorter word). Stage: use. Each word of a vocabulary is looked at once, whatever the size of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby

Attribute = Callable[[str], str | None]  # a question says "" for yes and None for no

_AFFIX = re.compile(r"(prefix|suffix)([1-9])")


def shape(word: str) -> str:
    """Capitals as X, other letters as x, digits as 0, runs of one kind as one: ``McDonald's-7`` is ``XxXx'x-0``."""
    return "".join(kind for kind, _ in groupby(map(_kind, word)))


def long_shape(word: str) -> str:
    """The same with every letter kept: ``IBM`` is ``XXX``."""
    return "".join(map(_kind, word))


def _kind(letter: str) -> str:
    if letter.isupper() or letter.istitle():
        return "X"
    if letter.isalpha():
        return "x"
    return "0" if letter.isdigit() else letter


def _when(question: Callable[[str], object]) -> Attribute:
    return lambda word: "" if question(word) else None


TEXTS: Mapping[str, Attribute] = {
    "w": lambda word: word,
    "lower": str.lower,
    "shape": shape,
    "long_shape": long_shape,
    "digits": lambda word: "".join("0" if letter.isdigit() else letter for letter in word),
}

QUESTIONS: Mapping[str, Attribute] = {
    "is_title": _when(lambda word: word[:1].isupper()),
    "is_upper": _when(str.isupper),
    "is_lower": _when(str.islower),
    "is_digit": _when(str.isdigit),
    "is_alpha": _when(str.isalpha),
    "is_punctuation": _when(lambda word: not any(letter.isalnum() for letter in word)),
    "has_digit": _when(lambda word: any(letter.isdigit() for letter in word)),
    "has_upper": _when(lambda word: any(letter.isupper() for letter in word)),
    "has_hyphen": _when(lambda word: "-" in word),
}

# Questions about the place of a token in its sentence, which are not the word's alone.
PLACES = ("first", "last", "all_lower", "all_upper")


def attribute(name: str) -> Attribute | None:
    """The attribute called ``name`` (``prefix3`` and the like included); None if there is none."""
    affix = _AFFIX.fullmatch(name)
    if affix is not None:
        size = int(affix[2])
        if affix[1] == "prefix":
            return lambda word: word[:size] if len(word) >= size else None
        return lambda word: word[-size:] if len(word) >= size else None
    return TEXTS.get(name) or QUESTIONS.get(name)


def is_question(name: str) -> bool:
    """Whether the attribute is answered yes or no, so that it is no outside of the sentence."""
    return name in QUESTIONS


def names() -> list[str]:
    """All names that :func:`attribute` and sentences know, for messages."""
    return [*TEXTS, "prefix1 to prefix9", "suffix1 to suffix9", *QUESTIONS, *PLACES, "bias"]
