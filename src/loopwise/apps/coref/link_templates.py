"""What is looked at in a link: a mention and the one before it in its entity, or an entity's first member.

In: :class:`~loopwise.apps.coref.pair_templates.MentionPairs`. Out: whole numbers, -1 where a template has nothing to
say. Stage: use. Where all pairs of an entity vote, a pronoun meets every other mention of a long entity; in a link it
meets its antecedent alone. Links have the templates of pairs, with weights of their own, and ask what lies between,
besides: how many candidates the link passes over, and what a rule of thumb would do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref.lexicon import DETERMINER_CLASSES, PRONOUN_CLASSES, UNKNOWN
from loopwise.apps.coref.mentions import COMMON, KINDS, PRONOUN, ROLES
from loopwise.apps.coref.pair_templates import MISMATCH, MentionPairs, PairTemplate, binned, pair_templates

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]

BETWEEN_BINS = (0, 1, 2, 4, 8)  # the last of each bin; one more for all beyond
LENGTH_BINS = (1, 2, 3, 5, 10)
PLACE_BINS = (0, 4, 16, 64)
_GROUPS = PRONOUN_CLASSES + 2  # classes of pronouns, names, nouns


def link_templates(types: int) -> tuple[PairTemplate, ...]:
    """The templates of links, for so many types of entities."""
    bins = len(BETWEEN_BINS) + 1
    return (
        *pair_templates(types),
        PairTemplate("group and sentences", _GROUPS * 5, lambda pairs: _groups(pairs) * 5 + pairs.sentence_bins),
        PairTemplate("candidates between", _GROUPS * bins, lambda pairs: _groups(pairs) * bins + _between(pairs)),
        PairTemplate("pronouns and candidates", _GROUPS * _GROUPS * 3, _between_groups),
        PairTemplate("heads between", 2 * bins, _heads_between, by_kind=True),
        PairTemplate("rule", 2, lambda pairs: _same_rule(pairs).astype(np.int64), by_kind=True),
        PairTemplate("rule's antecedent", _GROUPS * 2, lambda pairs: _groups(pairs) * 2 + _rule_link(pairs)),
        PairTemplate("roles", ROLES * ROLES, _roles, by_kind=True),
        PairTemplate("determiners", 2 * DETERMINER_CLASSES * DETERMINER_CLASSES, _determiners),
    )


# ------------------------------------------------------------------------------------------- templates of links


def group_of(pairs: MentionPairs) -> Integers:
    """Of each mention: its class of pronoun, or name, or noun."""
    mentions = pairs.mentions
    nouns = PRONOUN_CLASSES + (mentions.kind == COMMON)
    return np.where(mentions.kind == PRONOUN, mentions.pronoun, nouns)


def _groups(pairs: MentionPairs) -> Integers:
    return group_of(pairs)[pairs.two]


def passed(pairs: MentionPairs, candidates: Truths) -> Integers:
    """How many candidates of the second mention lie between the two, of those that ``candidates`` [pairs] names."""
    count = len(pairs.mentions)
    table = np.zeros((count, count), dtype=np.int64)
    table[pairs.one, pairs.two] = candidates
    upto = np.cumsum(table, axis=0)
    found: Integers = upto[-1, pairs.two] - upto[pairs.one, pairs.two] if count else np.zeros(0, dtype=np.int64)
    return found


def _compatible(pairs: MentionPairs) -> Truths:
    """Nothing speaks against the earlier mention: gender, number, person; it is not around the later one."""
    mentions = pairs.mentions
    against = pairs.nested.copy()
    for values in (mentions.gender, mentions.number):
        against |= pairs.agreement(values) == MISMATCH
    against |= (mentions.kind[pairs.one] == PRONOUN) & (pairs.agreement(mentions.person) == MISMATCH)
    return ~against


def _between(pairs: MentionPairs) -> Integers:
    return binned(passed(pairs, _compatible(pairs)), BETWEEN_BINS)


def _between_groups(pairs: MentionPairs) -> Integers:
    one, two = pairs.both(group_of(pairs))
    rank = np.minimum(passed(pairs, _compatible(pairs)), 2)
    return np.where(pairs.mentions.kind[pairs.two] == PRONOUN, (one * _GROUPS + two) * 3 + rank, UNKNOWN)


def _heads_between(pairs: MentionPairs) -> Integers:
    """Nominal mentions with the later one's head that a link passes over, and whether the earlier one has it."""
    bins = binned(passed(pairs, pairs.head_match), BETWEEN_BINS)
    later = pairs.mentions.kind[pairs.two] != PRONOUN
    return np.where(later, pairs.head_match * (len(BETWEEN_BINS) + 1) + bins, UNKNOWN)


def _same_rule(pairs: MentionPairs) -> Truths:
    return pairs.equal(pairs.rule)


def _rule_link(pairs: MentionPairs) -> Truths:
    """Whether the earlier mention is the last one that the rule puts with the later."""
    same = _same_rule(pairs)
    found: Truths = same & (passed(pairs, same) == 0)
    return found


def _roles(pairs: MentionPairs) -> Integers:
    one, two = pairs.both(pairs.mentions.role)
    return np.where((one == UNKNOWN) | (two == UNKNOWN), UNKNOWN, one * ROLES + two)


def _determiners(pairs: MentionPairs) -> Integers:
    one, two = pairs.both(pairs.mentions.determiner)
    known = pairs.nominal & (one != UNKNOWN) & (two != UNKNOWN)
    both = (pairs.head_match * DETERMINER_CLASSES + one) * DETERMINER_CLASSES + two
    return np.where(known, both, UNKNOWN)


# ------------------------------------------------------------------------------------- first members of entities


@dataclass(frozen=True)
class Opening:
    """A number from 0 to ``values`` - 1 for each mention as the first of its entity, or -1."""

    name: str
    values: int
    compute: Callable[[MentionPairs], Integers]


def openings(types: int) -> tuple[Opening, ...]:
    """The templates of first members, for so many types of entities."""
    return (
        Opening("group", _GROUPS, group_of),
        Opening("determiner and head", 4 * (DETERMINER_CLASSES + 1) * KINDS, _determiner_and_head),
        Opening("pronoun and candidates", _GROUPS * 3, _with_candidates),
        Opening("rule", _GROUPS * 2, lambda pairs: group_of(pairs) * 2 + _rule_opens(pairs)),
        Opening("length", KINDS * 6, lambda pairs: pairs.mentions.kind * 6 + binned(_length(pairs), LENGTH_BINS)),
        Opening("place", _GROUPS * 5, lambda pairs: group_of(pairs) * 5 + binned(_places(pairs), PLACE_BINS)),
        Opening("type", _GROUPS * (types + 1), lambda pairs: group_of(pairs) * (types + 1) + _type(pairs, types)),
        Opening("role", ROLES * KINDS, _role),
    )


def _places(pairs: MentionPairs) -> Integers:
    return np.arange(len(pairs.mentions), dtype=np.int64)


def _length(pairs: MentionPairs) -> Integers:
    found: Integers = pairs.mentions.last - pairs.mentions.first + 1
    return found


def _earlier(pairs: MentionPairs, truth: Truths) -> Integers:
    """Of each mention: of how many earlier ones something holds."""
    return np.bincount(pairs.two[truth], minlength=len(pairs.mentions)).astype(np.int64)


def _determiner_and_head(pairs: MentionPairs) -> Integers:
    """Whether the head was there before, and the very words; with what the mention begins with."""
    mentions = pairs.mentions
    seen = (_earlier(pairs, pairs.head_match) > 0) * 2 + (_earlier(pairs, pairs.equal(mentions.core)) > 0)
    begins = np.where(mentions.determiner == UNKNOWN, DETERMINER_CLASSES, mentions.determiner)
    found = (seen * (DETERMINER_CLASSES + 1) + begins) * KINDS + mentions.kind
    return np.where(mentions.kind == PRONOUN, UNKNOWN, found)


def _with_candidates(pairs: MentionPairs) -> Integers:
    return group_of(pairs) * 3 + np.minimum(_earlier(pairs, _compatible(pairs)), 2)


def _rule_opens(pairs: MentionPairs) -> Truths:
    found: Truths = _earlier(pairs, _same_rule(pairs)) == 0
    return found


def _type(pairs: MentionPairs, types: int) -> Integers:
    return np.where(pairs.mentions.type == UNKNOWN, types, pairs.mentions.type)


def _role(pairs: MentionPairs) -> Integers:
    role, kind = pairs.mentions.role, pairs.mentions.kind
    return np.where(role == UNKNOWN, UNKNOWN, role * KINDS + kind)
