"""Made documents are what they say."""

from __future__ import annotations

import pytest

from loopwise.apps.coref import made_documents


def test_the_same_seed_makes_the_same_documents() -> None:
    one, again, other = made_documents(3, seed=1), made_documents(3, seed=1), made_documents(3, seed=2)
    assert [document.words for document in one] == [document.words for document in again]
    assert [document.words for document in one] != [document.words for document in other]
    assert made_documents(2, seed=1)[1].words == one[1].words, "a document does not depend on how many there are"


def test_size_entities_and_trees() -> None:
    for document in made_documents(4, seed=0, mentions=40):
        assert 40 <= len(document.mentions) <= 42 and len(document.trees) == 20
        sizes = [document.entities().count(entity) for entity in set(document.entities())]
        assert max(sizes) > 1 and len(document.sentence_start) == 21


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_noise_is_the_share_of_pronouns_of_another_gender(noise: float) -> None:
    """Of an entity with names of one gender all its pronouns, or none of those that follow it, fit."""
    fits = []
    for document in made_documents(10, seed=3, noise=noise):
        genders = dict[int, set[str]]()
        texts = [document.text(mention).lower() for mention in document.mentions]
        for text, entity in zip(texts, document.entities(), strict=True):
            if text in ("he", "she"):
                genders.setdefault(entity, set()).add(text)
        known = {"mary", "anna", "susan", "laura", "alice", "emma"}
        for text, entity in zip(texts, document.entities(), strict=True):
            if text.split()[0] in known and entity in genders:
                fits.append(genders[entity] == {"she"})
    assert fits and all(fit == (noise == 0.0) for fit in fits)


@pytest.mark.parametrize("wrong", [{"count": -1}, {"count": 1, "mentions": 1}, {"count": 1, "noise": 2.0}])
def test_bad_numbers_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="mentions at least 2"):
        made_documents(**wrong)  # type: ignore[arg-type]
