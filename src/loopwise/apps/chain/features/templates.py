"""Feature templates in a small text: which attributes of which words, alone or together, are features of a token.

In: text such as ``w[0] w[-1]|w[0] lower[0] suffix3[0] is_title[0] first bias``. Out: :class:`FeatureTemplate` objects.
Stage: use. A template is one or more parts joined by ``|``; a part is an attribute, or a column of the text, and, in
brackets, how far its word is from the token (0 if left out). ``#`` begins a comment, white space separates templates.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from loopwise.apps.chain.features.attributes import PLACES, attribute, names
from loopwise.formats.errors import quoted

BIAS = "bias"
_PART = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)(?:\[([+-]?[0-9]{1,9})\])?")
_FARTHEST = 20  # words away; a typing error beyond

# A good start for names of people, places and the like; about 30 features a token.
NAMES = """
bias first last
w[0] lower[0] shape[0] long_shape[0] digits[0]
prefix1[0] prefix2[0] prefix3[0] prefix4[0] suffix1[0] suffix2[0] suffix3[0] suffix4[0]
is_title[0] is_upper[0] has_digit[0] has_hyphen[0] is_punctuation[0]
lower[-2] lower[-1] lower[1] lower[2] shape[-1] shape[1]
lower[-1]|lower[0] lower[0]|lower[1] shape[-1]|shape[0] shape[0]|shape[1] shape[-1]|shape[0]|shape[1]
"""

# Those of Wick et al. 2011 (SampleRank), section 5.3.
SAMPLERANK = "w[0] lower[0] is_title[0] all_lower first"


@dataclass(frozen=True, order=True)
class Part:
    """An attribute of the word ``offset`` places to the right, or what a column says of it."""

    name: str
    offset: int = 0
    column: bool = False

    def __str__(self) -> str:
        return self.name if self.name == BIAS or self.name in PLACES else f"{self.name}[{self.offset}]"


@dataclass(frozen=True)
class FeatureTemplate:
    """Parts whose values together are one feature; it is absent where one of them is."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "|".join(map(str, self.parts))

    @property
    def offset(self) -> int | None:
        """The one word that the template looks at; None if it looks at several, at a column, or at the place in the
        sentence."""
        if any(part.name in PLACES or part.column for part in self.parts):
            return None
        offsets = {part.offset for part in self.parts if part.name != BIAS} or {0}
        return offsets.pop() if len(offsets) == 1 else None


def parse_templates(text: str, columns: Collection[str] = ()) -> tuple[FeatureTemplate, ...]:
    """The templates of a text; a ValueError names the one that is none. ``columns``: names beside those of attributes.

    >>> [str(template) for template in parse_templates("w[0]  shape[-1]|shape[0] # the shapes of two words")]
    ['w[0]', 'shape[-1]|shape[0]']
    """
    words = _words(text)
    templates = [FeatureTemplate(tuple(_part(piece, word, columns) for piece in word.split("|"))) for word in words]
    seen: set[FeatureTemplate] = set()
    for template, word in zip(templates, words, strict=True):
        if template in seen:
            raise ValueError(f"template {quoted(word)} is listed twice; leave one out")
        seen.add(template)
    return tuple(templates)


def columns_wanted(*texts: str) -> tuple[str, ...]:
    """What templates look at that is no attribute of a word: names of columns, or errors.

    >>> columns_wanted("w[0] pos[-1]|pos[0] lemma")
    ('pos', 'lemma')
    """
    pieces = [piece for text in texts for word in _words(text) for piece in word.split("|")]
    names_found = [found[1] for piece in pieces if (found := _PART.fullmatch(piece)) is not None]
    return tuple(dict.fromkeys(name for name in names_found if not _is_attribute(name)))


def _words(text: str) -> list[str]:
    return [word for line in text.splitlines() for word in line.partition("#")[0].split()]


def _is_attribute(name: str) -> bool:
    return name == BIAS or name in PLACES or attribute(name) is not None


def _part(piece: str, word: str, columns: Collection[str]) -> Part:
    found = _PART.fullmatch(piece)
    where = "" if piece == word else f" of template {quoted(word)}"
    if found is None:
        raise ValueError(f"{quoted(piece)}{where} is no attribute; write it like lower[-1], parts joined by |")
    name, offset = found[1], found[2]
    if name == BIAS or name in PLACES:
        if offset is not None:
            raise ValueError(
                f"{quoted(piece)}{where} looks at no single word; leave {quoted(found[0][len(name) :])} out"
            )
        return Part(name)
    column = attribute(name) is None and name in columns
    if attribute(name) is None and not column:
        close = get_close_matches(name[:100], [*columns, *names()], 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names())}"
        raise ValueError(f"there is no attribute or column {quoted(name)}{where}; {hint}")
    if abs(int(offset or 0)) > _FARTHEST:
        raise ValueError(f"{quoted(piece)}{where} looks {abs(int(offset))} words away; at most {_FARTHEST}")
    return Part(name, int(offset or 0), column)
