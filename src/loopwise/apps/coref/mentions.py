"""Mentions as arrays: what each is, says and stands near.

In: a document with mentions. Out: :class:`Mentions`, one entry a mention in each array. Stage: use. Heads, tags and
roles come from the tree where there is one; else from a noun phrase's usual order and from spelling. Of the annotation
only the type of the entity is read, for whatever else a file may say of a mention (given or new, linked or not) tells
what is to be found. O(words).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref import lexicon as words_of
from loopwise.apps.coref.lexicon import UNKNOWN
from loopwise.formats.coref import CorefDocument, MentionSpan

Integers = NDArray[np.int64]

PROPER, COMMON, PRONOUN = 0, 1, 2
KINDS = 3
SUBJECT, OBJECT, POSSESSOR, OBLIQUE, ELSE = range(5)
ROLES = 5
_FEATS, _LEMMA, _UPOS, _XPOS, _RELATION = 5, 2, 3, 4, 7


@dataclass(frozen=True, eq=False)
class Mentions:
    """Arrays ``[mentions]``; -1 is unknown. Equal numbers of words and strings mean equal words and strings."""

    first: Integers
    last: Integers
    head: Integers  # the word
    governor: Integers  # the word that the head depends on, -1: none or no tree
    sentence: Integers
    kind: Integers  # PROPER, COMMON, PRONOUN
    pronoun: Integers  # class of pronoun
    person: Integers
    number: Integers
    gender: Integers
    determiner: Integers
    role: Integers
    apposed: Integers  # 1 where the head is an apposition in the tree
    relative: Integers  # 1 for relative pronouns
    type: Integers
    speaker: Integers
    text: Integers  # the whole string, in small letters
    core: Integers  # without determiners and the like
    head_word: Integers
    head_lemma: Integers
    capitals: Integers  # the string if it looks like an acronym, -1 else
    initials: Integers  # the acronym its name would have, -1 else
    head_texts: tuple[str, ...]  # the words that head_word numbers
    content: tuple[tuple[str, ...], ...]  # words of each mention that carry meaning
    modifiers: tuple[tuple[str, ...], ...]  # those beside the head
    names: tuple[tuple[str, ...], ...]  # the parts of proper names

    def __len__(self) -> int:
        return len(self.first)


_COLUMNS = [field.name for field in fields(Mentions)][:22]  # the arrays, in the order of the rows made below


class _Numbers:
    """Numbers for strings, in order of appearance."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


@dataclass(frozen=True)
class _Words:
    """What is known of the words of a document."""

    forms: Sequence[str]
    lower: Sequence[str]
    lemma: Sequence[str]
    coarse: Sequence[str]  # "" without a tree or tags
    feats: Sequence[str]
    relation: Sequence[str]
    governor: Sequence[int]
    tree: bool


def describe(document: CorefDocument, types: Mapping[str, int]) -> Mentions:
    """The mentions of a document; ``types`` numbers the types of entities, others are unknown."""
    words, numbers = _words(document), _Numbers()
    sentences = (
        np.searchsorted(np.array(document.sentence_start), [m.first for m in document.mentions], side="right") - 1
    )
    speakers: dict[str, int] = {}
    heads, rows, lists = _Numbers(), [], []
    for span, sentence in zip(document.mentions, sentences.tolist(), strict=True):
        head = _head(words, span)
        said = document.speakers[sentence] if document.speakers else ""
        one = _Mention(words, span, head)
        text, core = one.texts()
        capitals, initials = one.acronyms()
        lower = words.lower[head]
        rows.append(
            [
                span.first, span.last, head, words.governor[head], sentence, one.kind, one.pronoun.group,
                one.pronoun.person, one.number(), one.gender(span.kind), one.determiner(), one.role(),
                int(words.relation[head] == "appos"), int(one.relative), types.get(span.kind, UNKNOWN),
                speakers.setdefault(said, len(speakers)) if said else UNKNOWN, numbers(text), numbers(core),
                heads(lower), numbers(words.lemma[head]), numbers(capitals) if capitals else UNKNOWN,
                numbers(initials) if initials else UNKNOWN,
            ]
        )  # fmt: skip
        lists.append(one.word_lists())
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(_COLUMNS))
    content, modifiers, names = zip(*lists, strict=True) if lists else ((), (), ())
    columns: dict[str, Any] = dict(zip(_COLUMNS, np.ascontiguousarray(table.T), strict=True))
    return Mentions(**columns, head_texts=tuple(heads.known), content=content, modifiers=modifiers, names=names)


def _words(document: CorefDocument) -> _Words:
    forms = document.words
    lower = [form.lower() for form in forms]
    if not document.trees:
        coarse = [_coarse(tag) for tag in document.tags] or [""] * len(forms)
        blank = [""] * len(forms)
        return _Words(forms, lower, lower, coarse, blank, blank, [UNKNOWN] * len(forms), False)
    columns = [word for sentence in document.trees for word in sentence.words]
    governor = [
        start + head - 1 if head > 0 else UNKNOWN
        for start, sentence in zip(document.sentence_start, document.trees, strict=False)
        for head in sentence.heads
    ]
    return _Words(
        forms,
        lower,
        [word[_LEMMA].lower() for word in columns],
        [word[_UPOS] for word in columns],
        [word[_FEATS] for word in columns],
        [word[_RELATION] for word in columns],
        governor,
        True,
    )


def _coarse(tag: str) -> str:
    """The universal tag of a Penn tag, as far as mentions ask for it."""
    if tag.startswith("NNP"):
        return "PROPN"
    if tag.startswith("NN"):
        return "NOUN"
    return "PRON" if tag.startswith(("PRP", "WP", "EX")) else {"CD": "NUM", "DT": "DET", "JJ": "ADJ"}.get(tag, "X")


def _head(words: _Words, span: MentionSpan) -> int:
    """The first word whose governor lies outside; without a tree the last one before what follows a head."""
    if words.tree:
        outside = (w for w in range(span.first, span.last + 1) if not span.first <= words.governor[w] <= span.last)
        heads = [word for word in outside if words.coarse[word] not in ("PUNCT", "SYM")]
        return heads[0] if heads else span.last
    last = span.first
    for word in range(span.first, span.last + 1):
        if word > span.first and words.lower[word] in words_of.AFTER_HEAD:
            break
        if words.lower[word] not in ("'s", "’s", "'", "’"):
            last = word
    return last


_NO_PRONOUN = words_of.Pronoun(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


class _Mention:
    """One mention, asked for its properties."""

    def __init__(self, words: _Words, span: MentionSpan, head: int) -> None:
        self.words, self.span, self.head = words, span, head
        self.places = range(span.first, span.last + 1)
        self.pronoun, self.relative = self._pronoun()
        self.kind = PRONOUN if self.pronoun.group != UNKNOWN else PROPER if self._is_proper() else COMMON

    def _pronoun(self) -> tuple[words_of.Pronoun, bool]:
        words, head = self.words, self.head
        found = words_of.PRONOUNS.get(words.lower[head])
        nouns = words.coarse[head] in ("NOUN", "PROPN", "NUM", "VERB", "ADJ")
        if found is None or nouns or len(self.places) > 2:
            return _NO_PRONOUN, False
        relative = "PronType=Rel" in words.feats[head] if words.tree else words.lower[head] in words_of.RELATIVE
        if relative:
            return words_of.Pronoun(words_of.WHO, found.person, UNKNOWN, UNKNOWN), True
        return found, False

    def _is_proper(self) -> bool:
        words, head = self.words, self.head
        if words.coarse[head]:
            return words.coarse[head] == "PROPN"
        begins = head == 0 or words.forms[head - 1] in (".", "?", "!", "“", '"')
        return words.forms[head][:1].isupper() and not (begins and words.lower[head] in words_of.LIGHT)

    def number(self) -> int:
        words, head = self.words, self.head
        if self.pronoun.group != UNKNOWN and self.pronoun.number != UNKNOWN:
            return self.pronoun.number
        if any(words.lower[word] == "and" and words.governor[word] != head for word in self.places if word > head):
            joined = any(words.relation[word] == "conj" and words.governor[word] == head for word in self.places)
            if joined:
                return words_of.PLURAL
        if words.tree:
            feats = words.feats[head]
            return words_of.PLURAL if "Plur" in feats else words_of.SINGULAR if "Sing" in feats else UNKNOWN
        if self.kind == PRONOUN:
            return UNKNOWN
        lower = words.lower[head]
        plural = lower in words_of.PLURAL_NOUNS or (
            self.kind == COMMON and lower.endswith("s") and not lower.endswith(("ss", "us", "is"))
        )
        return words_of.PLURAL if plural else words_of.SINGULAR

    def gender(self, kind: str) -> int:
        if self.pronoun.group != UNKNOWN:
            return self.pronoun.gender
        if kind and kind not in ("person", "animal", "PERSON", "PER"):
            return words_of.NEUTER
        ours = [self.words.lower[self.head], *(self.words.lower[word] for word in self.places)]
        own = ours if self.kind == PROPER else ours[:1]
        return next((words_of.GENDERS[word] for word in own if word in words_of.GENDERS), UNKNOWN)

    def determiner(self) -> int:
        first = self.words.lower[self.span.first]
        if self.kind == PRONOUN:
            return UNKNOWN
        if first in words_of.DETERMINERS:
            return words_of.DETERMINERS[first]
        possessed = any(self.words.lower[word] in ("'s", "’s") for word in range(self.span.first, self.head))
        return words_of.POSSESSIVE if possessed else words_of.BARE

    def role(self) -> int:
        relation = self.words.relation[self.head]
        if not relation:
            return UNKNOWN
        if relation.startswith(("nsubj", "csubj")):
            return SUBJECT
        if relation in ("obj", "iobj"):
            return OBJECT
        return POSSESSOR if relation == "nmod:poss" else OBLIQUE if relation.startswith(("obl", "nmod")) else ELSE

    def texts(self) -> tuple[str, str]:
        lower = [self.words.lower[word] for word in self.places]
        core = [word for word in lower if word not in words_of.LIGHT]
        return " ".join(lower), " ".join(core or lower)

    def acronyms(self) -> tuple[str, str]:
        """The mention if it is one in capitals, and the first letters of a longer name."""
        forms = [self.words.forms[word] for word in self.places if self.words.lower[word] not in words_of.LIGHT]
        if self.kind == PRONOUN:
            return "", ""
        if len(forms) == 1:
            letters = forms[0].replace(".", "")
            return (letters, "") if len(letters) > 1 and letters.isupper() else ("", "")
        initials = "".join(form[0] for form in forms if form[0].isupper())
        return "", initials if len(initials) > 1 else ""

    def word_lists(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Words with content, modifiers, parts of a name."""
        words = self.words
        if self.kind == PRONOUN:
            return (), (), ()
        content = [w for w in self.places if words.lower[w] not in words_of.LIGHT and words.coarse[w] != "PUNCT"]
        modifiers = [w for w in content if w != self.head and words.coarse[w] in ("ADJ", "NOUN", "PROPN", "NUM", "")]
        names = [
            w for w in content if words.coarse[w] == "PROPN" or (not words.coarse[w] and words.forms[w][0].isupper())
        ]
        mine: list[list[int]] = [content, modifiers, names if self.kind == PROPER else []]
        one, two, three = (tuple(words.lower[word] for word in places) for places in mine)
        return one, two, three
