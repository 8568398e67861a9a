"""Words that say what a mention is: closed classes hold together."""

from __future__ import annotations

from loopwise.apps.coref import lexicon


def test_pronouns_agree_with_their_classes() -> None:
    assert {pronoun.group for pronoun in lexicon.PRONOUNS.values()} == set(range(lexicon.PRONOUN_CLASSES))
    for word, gender in (("he", lexicon.MALE), ("hers", lexicon.FEMALE), ("its", lexicon.NEUTER)):
        assert lexicon.PRONOUNS[word].gender == gender and lexicon.PRONOUNS[word].number == lexicon.SINGULAR
    assert lexicon.PRONOUNS["we"].person == 0 and lexicon.PRONOUNS["they"].number == lexicon.PLURAL
    assert all(word == word.lower() for word in (*lexicon.PRONOUNS, *lexicon.DETERMINERS, *lexicon.GENDERS))


def test_determiners_and_genders() -> None:
    assert set(lexicon.DETERMINERS.values()) <= set(range(lexicon.DETERMINER_CLASSES))
    assert lexicon.DETERMINERS["the"] == lexicon.DEFINITE and lexicon.DETERMINERS["her"] == lexicon.POSSESSIVE
    assert set(lexicon.DETERMINERS) <= lexicon.LIGHT and {"of", "which", ","} <= lexicon.AFTER_HEAD
    male, female = set(lexicon._MALE.split()), set(lexicon._FEMALE.split())
    assert not male & female, "a word of both genders would have that of the last list"
    assert lexicon.GENDERS["mr."] == lexicon.MALE and lexicon.GENDERS["mrs."] == lexicon.FEMALE
    assert "people" in lexicon.PLURAL_NOUNS
