"""Templates of pairs of mentions."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.coref import lexicon, made_documents
from loopwise.apps.coref.mentions import COMMON, PRONOUN, PROPER, Mentions, describe
from loopwise.apps.coref.pair_templates import MentionPairs, pair_templates
from loopwise.apps.coref.similarity import Frequencies
from loopwise.formats.coref import CorefDocument, MentionSpan

SOCIETY, JOHN, TEACHER, CHILDREN, UBS, HIM, TEACHERS, THAT = range(8)


def values(name: str, mentions: Mentions) -> dict[tuple[int, int], int]:
    pairs = MentionPairs(mentions, Frequencies.of([]))
    template = next(template for template in pair_templates(2) if template.name == name)
    found = np.asarray(template.compute(pairs)).astype(int).tolist()
    return dict(zip(zip(pairs.one.tolist(), pairs.two.tolist(), strict=True), found, strict=True))


@pytest.mark.parametrize(
    ("name", "holding"),
    [
        ("acronym", {(SOCIETY, UBS): 0}),
        ("apposition", {(JOHN, TEACHER): 0}),
        ("head word match", {}),
        ("relative pronoun", {(TEACHERS, THAT): 0}),
        ("nested", {(TEACHER, CHILDREN): 0, (TEACHERS, THAT): 0}),
        ("possessor inside", {}),
        ("head substring", {}),
    ],
)
def test_templates_that_rarely_hold(mentions: Mentions, name: str, holding: dict[tuple[int, int], int]) -> None:
    found = {pair: value for pair, value in values(name, mentions).items() if value != -1}
    near = {pair: value for pair, value in found.items() if value == 0}
    assert near == holding


def test_templates_that_always_speak(mentions: Mentions) -> None:
    heads = values("head match", mentions)
    assert heads[TEACHER, TEACHERS] == 1 and heads[TEACHER, CHILDREN] == 0 and heads[JOHN, HIM] == -1
    assert values("gender", mentions)[JOHN, HIM] == 0 and values("gender", mentions)[SOCIETY, HIM] == 1
    assert values("number", mentions)[TEACHER, TEACHERS] == 1 and values("number", mentions)[HIM, THAT] == 2
    assert values("type", mentions)[SOCIETY, UBS] == 0 and values("type", mentions)[SOCIETY, JOHN] == 1
    assert values("sentences apart", mentions)[JOHN, HIM] == 1 and values("mentions apart", mentions)[JOHN, HIM] == 2
    assert values("near subject", mentions)[SOCIETY, HIM] == 1
    with_type = values("pronoun and earlier type", mentions)
    assert with_type[JOHN, HIM] == lexicon.HE * 3 + 1 and with_type[JOHN, UBS] == -1
    speakers = values("speakers", mentions)
    assert set(speakers.values()) == {-1}


def test_without_a_tree() -> None:
    text = "The University of Arden praised Mary and her old house . She cried"
    words = tuple(text.split())
    spans = (
        MentionSpan(0, 3, "1"),
        MentionSpan(3, 3, "2"),
        MentionSpan(5, 5, "3"),
        MentionSpan(7, 9, "4"),
        MentionSpan(7, 7, "3"),
        MentionSpan(11, 11, "3"),
    )
    mentions = describe(CorefDocument("d", words, (0, 11, 13), spans), {})
    assert [words[head] for head in mentions.head] == ["University", "Arden", "Mary", "house", "her", "She"]
    assert mentions.kind.tolist() == [PROPER, PROPER, PROPER, COMMON, PRONOUN, PRONOUN]
    assert mentions.gender[[2, 4, 5]].tolist() == [lexicon.FEMALE] * 3
    assert mentions.role.tolist() == [-1] * 6 and mentions.determiner[3] == lexicon.POSSESSIVE
    assert values("possessor inside", mentions)[3, 4] == 0


@pytest.mark.parametrize("types", [0, 3])
def test_codes_are_in_range(types: int) -> None:
    made = made_documents(3, seed=4, mentions=25)
    kinds = {"person": 0, "place": 1, "object": 2} if types else {}
    for document in made:
        pairs = MentionPairs(describe(document, kinds), Frequencies.of(d.words for d in made))
        for template in pair_templates(types):
            codes = template.codes(pairs)
            assert codes.shape == pairs.one.shape and codes.min(initial=0) >= -1, template.name
            assert codes.max(initial=-1) < template.weights, template.name
