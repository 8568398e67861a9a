"""What mentions are."""

from __future__ import annotations

from loopwise.apps.coref import lexicon
from loopwise.apps.coref.mentions import COMMON, OBJECT, PRONOUN, PROPER, SUBJECT, Mentions
from loopwise.formats.coref import CorefDocument

SOCIETY, JOHN, TEACHER, CHILDREN, UBS, HIM, TEACHERS, THAT = range(8)


def test_what_mentions_are(document: CorefDocument, mentions: Mentions) -> None:
    heads = [document.words[head] for head in mentions.head]
    assert heads == ["Society", "John", "teacher", "children", "UBS", "him", "teachers", "that"]
    assert mentions.kind.tolist() == [PROPER, PROPER, COMMON, COMMON, PROPER, PRONOUN, COMMON, PRONOUN]
    assert mentions.type.tolist() == [0, 1, 1, 1, 0, 1, 1, 1]
    assert mentions.number.tolist() == [0, 0, 0, 1, 0, 0, 1, -1]
    assert mentions.gender[[SOCIETY, JOHN, HIM]].tolist() == [lexicon.NEUTER, lexicon.MALE, lexicon.MALE]
    assert mentions.role[[SOCIETY, JOHN, HIM, THAT]].tolist() == [SUBJECT, OBJECT, OBJECT, SUBJECT]
    assert mentions.determiner[[SOCIETY, TEACHER, TEACHERS]].tolist() == [
        lexicon.DEFINITE,
        lexicon.INDEFINITE,
        lexicon.QUANTIFIED,
    ]
    assert mentions.sentence.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert mentions.relative.tolist() == [0] * 7 + [1] and mentions.pronoun[THAT] == lexicon.WHO
    assert mentions.speaker.tolist() == [0] * 4 + [1] * 4
    assert mentions.names[SOCIETY] == ("united", "bird", "society") and mentions.modifiers[TEACHERS] == ()
    assert mentions.content[TEACHER] == ("teacher", "of", "children")
