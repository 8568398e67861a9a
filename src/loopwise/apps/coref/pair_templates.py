"""What is looked at in a pair of mentions: templates, each a small number for every pair of a document.

In: :class:`MentionPairs`. Out: whole numbers ``[pairs]``, -1 where a template has nothing to say. Stage: use (Wick et
al. 2011, section 5.1; the properties of Culotta et al. 2007). All vectorised. A template ``by_kind`` has weights of its
own for each pair of proper name, common noun and pronoun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref import lexicon
from loopwise.apps.coref.lexicon import DETERMINER_CLASSES, PRONOUN_CLASSES, UNKNOWN
from loopwise.apps.coref.mentions import COMMON, KINDS, PRONOUN, PROPER, ROLES, SUBJECT, Mentions
from loopwise.apps.coref.rule import rule_entities
from loopwise.apps.coref.similarity import Frequencies, cosines, overlaps
from loopwise.walk import all_pairs

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

SENTENCE_BINS = (0, 1, 2, 5)  # the last of each bin; one more for all beyond
MENTION_BINS = (1, 2, 4, 8, 16, 32, 64)
COSINE_BINS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
MATCH, MISMATCH, UNSAID = 0, 1, 2
_WHO = PRONOUN_CLASSES + 2  # classes of pronouns, proper names, common nouns


class MentionPairs:
    """All pairs (one, two) of a document's mentions, ``one`` the earlier, in the order in which walks number them."""

    def __init__(self, mentions: Mentions, frequencies: Frequencies) -> None:
        self.mentions, self.frequencies = mentions, frequencies
        self.one, self.two = all_pairs(len(mentions))

    def both(self, values: Integers) -> tuple[Integers, Integers]:
        """A property of the first and of the second mention of each pair."""
        return values[self.one], values[self.two]

    def equal(self, values: Integers) -> Truths:
        """Where both are known and the same."""
        one, two = self.both(values)
        same: Truths = (one == two) & (one != UNKNOWN)
        return same

    def agreement(self, values: Integers) -> Integers:
        """MATCH, MISMATCH, or UNSAID where one is unknown."""
        one, two = self.both(values)
        unknown = (one == UNKNOWN) | (two == UNKNOWN)
        return np.where(unknown, UNSAID, np.where(one == two, MATCH, MISMATCH))

    @cached_property
    def kinds(self) -> Integers:
        """Which two kinds, in order."""
        one, two = self.both(self.mentions.kind)
        return one * KINDS + two

    @cached_property
    def nominal(self) -> Truths:
        """Neither is a pronoun."""
        one, two = self.both(self.mentions.kind)
        found: Truths = (one != PRONOUN) & (two != PRONOUN)
        return found

    @cached_property
    def proper(self) -> Truths:
        """Both are names."""
        one, two = self.both(self.mentions.kind)
        found: Truths = (one == PROPER) & (two == PROPER)
        return found

    @cached_property
    def head_match(self) -> Truths:
        return self.nominal & (self.equal(self.mentions.head_word) | self.equal(self.mentions.head_lemma))

    @cached_property
    def cosine(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = cosines(self.mentions.content, self.frequencies)[self.one, self.two]
        return found

    @cached_property
    def modifiers(self) -> Integers:
        """How the sets of modifiers relate: :func:`_relation` of sets."""
        return self._sets(self.mentions.modifiers)

    @cached_property
    def names(self) -> Integers:
        """How the parts of two names relate."""
        return self._sets(self.mentions.names)

    @cached_property
    def sentences_apart(self) -> Integers:
        one, two = self.both(self.mentions.sentence)
        return two - one

    @cached_property
    def sentence_bins(self) -> Integers:
        return binned(self.sentences_apart, SENTENCE_BINS)

    @cached_property
    def rule(self) -> Integers:
        """The entity of each mention by the rule of thumb."""
        return rule_entities(self.mentions)

    @cached_property
    def nested(self) -> Truths:
        """The first contains the second."""
        found: Truths = self.mentions.last[self.one] >= self.mentions.last[self.two]
        return found

    def _sets(self, lists: tuple[tuple[str, ...], ...]) -> Integers:
        shared, sizes = overlaps(lists)
        return _relation(shared[self.one, self.two], sizes[self.one], sizes[self.two])


EMPTY, SAME, LESS, MORE, PARTLY, DISJOINT = range(6)
SET_RELATIONS = 6


def _relation(shared: Integers, one: Integers, two: Integers) -> Integers:
    """Of two sets: both empty, the same, the second part of the first, the first of the second, overlap, disjoint."""
    found = np.where(shared > 0, PARTLY, DISJOINT)
    found = np.where(shared == one, MORE, found)
    found = np.where(shared == two, LESS, found)
    found = np.where((shared == one) & (shared == two), SAME, found)
    return np.where((one == 0) & (two == 0), EMPTY, found)


@dataclass(frozen=True)
class PairTemplate:
    """A number from 0 to ``values`` - 1 for each pair, or -1."""

    name: str
    values: int
    compute: Callable[[MentionPairs], Integers]
    by_kind: bool = False

    @property
    def weights(self) -> int:
        return self.values * (KINDS * KINDS if self.by_kind else 1)

    def codes(self, pairs: MentionPairs) -> Integers:
        """Which weight of the template each pair has, -1: none."""
        values = np.asarray(self.compute(pairs), dtype=np.int64)
        if self.by_kind:
            return np.where(values == UNKNOWN, UNKNOWN, pairs.kinds * self.values + values)
        return values


def pair_templates(types: int) -> tuple[PairTemplate, ...]:
    """The templates, for so many types of entities."""
    known = types + 1  # the last one: no type
    return (
        PairTemplate("kinds", KINDS * KINDS, lambda pairs: pairs.kinds),
        PairTemplate("exact match", 2, _exact),
        PairTemplate("relaxed match", 2, lambda pairs: _nominal(pairs, pairs.equal(pairs.mentions.core))),
        PairTemplate("head match", 2, lambda pairs: _nominal(pairs, pairs.head_match), by_kind=True),
        PairTemplate("head word match", 1, lambda pairs: _if(pairs.nominal & pairs.equal(pairs.mentions.head_word))),
        PairTemplate("head substring", 1, _head_substring),
        PairTemplate("acronym", 1, _acronym),
        PairTemplate("names and heads match", 2, lambda pairs: np.where(pairs.proper, ~pairs.head_match, UNKNOWN)),
        PairTemplate("parts of names", SET_RELATIONS, lambda pairs: np.where(pairs.proper, pairs.names, UNKNOWN)),
        PairTemplate("type", 3, lambda pairs: pairs.agreement(pairs.mentions.type), by_kind=True),
        PairTemplate("shared type", known, _shared_type),
        PairTemplate("gender", 3, lambda pairs: pairs.agreement(pairs.mentions.gender), by_kind=True),
        PairTemplate("number", 3, lambda pairs: pairs.agreement(pairs.mentions.number), by_kind=True),
        PairTemplate(
            "person", 3, lambda pairs: np.where(pairs.nominal, UNKNOWN, pairs.agreement(pairs.mentions.person))
        ),
        PairTemplate("pronouns", _WHO * _WHO, _who),
        PairTemplate("same pronoun", 2, _same_pronoun),
        PairTemplate("pronoun and earlier type", _WHO * known, lambda pairs: _pronoun_type(pairs, types, later=True)),
        PairTemplate("pronoun and later type", _WHO * known, lambda pairs: _pronoun_type(pairs, types, later=False)),
        PairTemplate("pronoun and sentences", _WHO * 5, _pronoun_distance),
        PairTemplate("apposition", 2, _apposition),
        PairTemplate("predicate", 1, _predicate),
        PairTemplate("relative pronoun", 2, _relative),
        PairTemplate("nested", 1, lambda pairs: _if(pairs.nested), by_kind=True),
        PairTemplate("possessor inside", 1, _possessor),
        PairTemplate("sentences apart", 5, lambda pairs: binned(pairs.sentences_apart, SENTENCE_BINS), by_kind=True),
        PairTemplate("mentions apart", 8, lambda pairs: binned(pairs.two - pairs.one, MENTION_BINS), by_kind=True),
        PairTemplate("modifiers", 2 * SET_RELATIONS, _modifiers),
        PairTemplate("cosine", 7, _cosine, by_kind=True),
        PairTemplate("later determiner", 2 * DETERMINER_CLASSES, lambda pairs: _determiner(pairs, pairs.two)),
        PairTemplate("earlier determiner", 2 * DETERMINER_CLASSES, lambda pairs: _determiner(pairs, pairs.one)),
        PairTemplate("earlier role", ROLES, lambda pairs: pairs.mentions.role[pairs.one], by_kind=True),
        PairTemplate("parallel roles", ROLES * 2, _parallel),
        PairTemplate("speakers", 8, _speakers),
        PairTemplate("near subject", 2, _near_subject),
    )


# ------------------------------------------------------------------------------------------ the single templates


def _if(truth: Truths) -> Integers:
    """0 where it holds."""
    return np.where(truth, 0, UNKNOWN)


def _nominal(pairs: MentionPairs, truth: Truths) -> Integers:
    """1 where it holds and 0 where not, of pairs without pronouns."""
    return np.where(pairs.nominal, truth.astype(np.int64), UNKNOWN)


def binned(values: Integers, ends: tuple[int, ...]) -> Integers:
    """The number of the bin of each value; ``ends`` are the last of each, one more bin has all beyond."""
    return np.searchsorted(np.array(ends), values, side="left").astype(np.int64)


def _exact(pairs: MentionPairs) -> Integers:
    """The same string, 1 of two names, 0 of other nominal mentions."""
    same = pairs.equal(pairs.mentions.text)
    return np.where(pairs.nominal & same, pairs.proper.astype(np.int64), UNKNOWN)


def _head_substring(pairs: MentionPairs) -> Integers:
    texts = pairs.mentions.head_texts
    table = np.array([[one in two or two in one for two in texts] for one in texts], dtype=np.bool_)
    table = table.reshape(len(texts), len(texts))
    one, two = pairs.both(pairs.mentions.head_word)
    found = table[one, two] if len(texts) else np.zeros(len(one), dtype=np.bool_)
    return _if(pairs.nominal & found & ~pairs.head_match)


def _acronym(pairs: MentionPairs) -> Integers:
    capitals, initials = pairs.mentions.capitals, pairs.mentions.initials
    forward = (initials[pairs.one] == capitals[pairs.two]) & (capitals[pairs.two] != UNKNOWN)
    backward = (capitals[pairs.one] == initials[pairs.two]) & (capitals[pairs.one] != UNKNOWN)
    return _if(forward | backward)


def _shared_type(pairs: MentionPairs) -> Integers:
    one, two = pairs.both(pairs.mentions.type)
    return np.where(one == two, one, UNKNOWN)


def _classes(mentions: Mentions) -> Integers:
    nominal = np.where(mentions.kind == PROPER, PRONOUN_CLASSES, PRONOUN_CLASSES + 1)
    return np.where(mentions.kind == PRONOUN, mentions.pronoun, nominal)


def _who(pairs: MentionPairs) -> Integers:
    one, two = pairs.both(_classes(pairs.mentions))
    return np.where(pairs.nominal, UNKNOWN, one * _WHO + two)


def _same_pronoun(pairs: MentionPairs) -> Integers:
    one, two = pairs.both(pairs.mentions.kind)
    same = pairs.equal(pairs.mentions.head_word)
    return np.where((one == PRONOUN) & (two == PRONOUN), same.astype(np.int64), UNKNOWN)


def _pronoun_type(pairs: MentionPairs, types: int, *, later: bool) -> Integers:
    """A pronoun, and the type of the other mention, which is none."""
    pronoun, other = (pairs.two, pairs.one) if later else (pairs.one, pairs.two)
    kind, group, type_of = pairs.mentions.kind, pairs.mentions.pronoun, pairs.mentions.type[other]
    wanted = (kind[pronoun] == PRONOUN) & (kind[other] != PRONOUN)
    return np.where(wanted, group[pronoun] * (types + 1) + np.where(type_of == UNKNOWN, types, type_of), UNKNOWN)


def _pronoun_distance(pairs: MentionPairs) -> Integers:
    pronoun = pairs.mentions.pronoun[pairs.two]
    return np.where(pronoun == UNKNOWN, UNKNOWN, pronoun * 5 + binned(pairs.sentences_apart, SENTENCE_BINS))


def _apposition(pairs: MentionPairs) -> Integers:
    """0: by the tree; 1: only a word (a comma) between two nominal mentions."""
    mentions = pairs.mentions
    by_tree = (mentions.apposed[pairs.two] == 1) & (mentions.governor[pairs.two] == mentions.head[pairs.one])
    near = pairs.nominal & (mentions.first[pairs.two] == mentions.last[pairs.one] + 2)
    near &= mentions.sentence[pairs.one] == mentions.sentence[pairs.two]
    return np.where(by_tree, 0, np.where(near, 1, UNKNOWN))


def _predicate(pairs: MentionPairs) -> Integers:
    """The first is the subject of the second, a noun."""
    mentions = pairs.mentions
    subject = mentions.role[pairs.one] == SUBJECT
    return _if(subject & (mentions.governor[pairs.one] == mentions.head[pairs.two]) & ~pairs.nested)


def _relative(pairs: MentionPairs) -> Integers:
    """A relative pronoun: 0 inside the first mention or right after it, 1 elsewhere."""
    mentions = pairs.mentions
    near = pairs.nested | (mentions.first[pairs.two] - mentions.last[pairs.one] == 1)
    return np.where(mentions.relative[pairs.two] == 1, np.where(near, 0, 1), UNKNOWN)


def _possessor(pairs: MentionPairs) -> Integers:
    """The second begins the first, as in *her house*: hardly ever the same."""
    return _if(pairs.nested & (pairs.mentions.first[pairs.one] == pairs.mentions.first[pairs.two]))


def _modifiers(pairs: MentionPairs) -> Integers:
    return np.where(pairs.nominal, pairs.head_match * SET_RELATIONS + pairs.modifiers, UNKNOWN)


def _cosine(pairs: MentionPairs) -> Integers:
    bins = np.searchsorted(np.array(COSINE_BINS) + 1e-9, pairs.cosine, side="left")
    return np.where(pairs.nominal, bins, UNKNOWN)


def _determiner(pairs: MentionPairs, side: Integers) -> Integers:
    determiner = pairs.mentions.determiner[side]
    known = pairs.nominal & (determiner != UNKNOWN)
    return np.where(known, pairs.head_match * DETERMINER_CLASSES + determiner, UNKNOWN)


def _parallel(pairs: MentionPairs) -> Integers:
    """The same role, in the same or the sentence before; and whether the second is a pronoun."""
    role = pairs.mentions.role
    near = pairs.equal(role) & (pairs.sentences_apart <= 1)
    pronoun = pairs.mentions.kind[pairs.two] == PRONOUN
    return np.where(near, role[pairs.two] * 2 + pronoun, UNKNOWN)


def _speakers(pairs: MentionPairs) -> Integers:
    """I and I, I and you, you and you, we and we; each by the same speaker or by others."""
    one, two = pairs.both(pairs.mentions.pronoun)
    first, second = pairs.both(pairs.mentions.speaker)
    me, you, us = lexicon.I, lexicon.YOU, lexicon.WE
    case = np.full(len(one), UNKNOWN, dtype=np.int64)
    case[(one == me) & (two == me)] = 0
    case[((one == me) & (two == you)) | ((one == you) & (two == me))] = 1
    case[(one == you) & (two == you)] = 2
    case[(one == us) & (two == us)] = 3
    unknown = (case == UNKNOWN) | (first == UNKNOWN) | (second == UNKNOWN)
    return np.where(unknown, UNKNOWN, case * 2 + (first != second))


def _near_subject(pairs: MentionPairs) -> Integers:
    """A pronoun and a subject: in the same sentence (0), in the one before (1)."""
    mentions = pairs.mentions
    wanted = (mentions.kind[pairs.two] == PRONOUN) & (mentions.role[pairs.one] == SUBJECT)
    wanted &= (mentions.kind[pairs.one] != COMMON) | (mentions.determiner[pairs.one] != lexicon.QUANTIFIED)
    return np.where(wanted & (pairs.sentences_apart <= 1), pairs.sentences_apart, UNKNOWN)
