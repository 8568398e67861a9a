"""Links against slow loops, and the rule of thumb on a text whose entities are plain."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.coref import lexicon, made_documents
from loopwise.apps.coref.features import Featuriser
from loopwise.apps.coref.link_templates import group_of, link_templates, openings, passed
from loopwise.apps.coref.mentions import COMMON, PRONOUN, describe
from loopwise.apps.coref.pair_templates import MentionPairs
from loopwise.apps.coref.rule import rule_entities
from loopwise.apps.coref.similarity import Frequencies
from loopwise.formats.coref import CorefDocument, MentionSpan


def text_of(words: str, mentions: list[tuple[int, int]]) -> CorefDocument:
    forms = tuple(words.split())
    spans = tuple(MentionSpan(first, last, str(place)) for place, (first, last) in enumerate(mentions))
    return CorefDocument("d", forms, (0, len(forms)), spans)


@pytest.fixture(scope="module")
def pairs() -> MentionPairs:
    document = made_documents(1, seed=4, mentions=14)[0]
    return MentionPairs(describe(document, {}), Frequencies.of([document.words]))


def test_candidates_passed_over(pairs: MentionPairs) -> None:
    marked = np.random.default_rng(0).random(len(pairs.one)) < 0.4
    of = {(one, two): mark for one, two, mark in zip(pairs.one.tolist(), pairs.two.tolist(), marked, strict=True)}
    slow = [sum(of[k, two] for k in range(one + 1, two)) for one, two in of]
    assert passed(pairs, marked).tolist() == slow


def test_codes_are_in_range(pairs: MentionPairs) -> None:
    for template in link_templates(2):
        codes = template.codes(pairs)
        assert codes.shape == pairs.one.shape and codes.min() >= -1 and codes.max() < template.weights, template.name
    for opening in openings(2):
        codes = opening.compute(pairs)
        assert codes.shape == (14,) and codes.min() >= -1 and codes.max() < opening.values, opening.name


def test_groups(pairs: MentionPairs) -> None:
    for kind, group, pronoun in zip(pairs.mentions.kind, group_of(pairs), pairs.mentions.pronoun, strict=True):
        nominal = lexicon.PRONOUN_CLASSES + int(kind == COMMON)
        assert group == (pronoun if kind == PRONOUN else nominal)


def test_the_rule() -> None:
    """Mr Lee ... Mary ... he ... she ... I ... Lee ... it ... you: he goes to the man, she to the woman."""
    words = "Mr Lee met Mary . He saw her . I think Lee bought the car . It broke . You laughed"
    spans = [(0, 1), (3, 3), (5, 5), (7, 7), (9, 9), (11, 11), (13, 14), (16, 16), (19, 19)]
    found = rule_entities(describe(text_of(words, spans), {}))
    lee, mary, he, her, me, again, car, it, you = found.tolist()
    assert he == lee == again and her == mary and it == car
    assert len({lee, mary, me, car, you}) == 5


def test_documents_without_pairs() -> None:
    for count in (0, 1):
        document = text_of("Ann sings", [(0, 0)] * count)
        made = Featuriser.of([document])(document)
        assert made.mentions == count and made.link_row is not None and made.link_row.shape == (count,)


def test_links_can_be_left_out() -> None:
    documents = made_documents(2, seed=1)
    featuriser = Featuriser.of(documents, links=False)
    assert featuriser(documents[0]).links is None and featuriser.model().link_features == 0
    assert Featuriser.of(documents).model().size > featuriser.model().size
