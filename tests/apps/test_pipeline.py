"""A tagger and a parser in one call: what goes to each, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from loopwise.apps import Pipeline
from loopwise.formats.conllu import Sentence


class Capitals:
    """Tags words by how they begin."""

    def predict(self, sentences: list[list[str]]) -> list[list[str]]:
        return [["PROPN" if word[0].isupper() else "X" for word in sentence] for sentence in sentences]


class Flat:
    """Hangs every word on the first one."""

    def predict(self, sentences: list[Sentence]) -> list[Sentence]:
        return [sentence.with_tree([0, *[1] * (len(sentence) - 1)], ["dep"] * len(sentence)) for sentence in sentences]

    def parse(self, sentences: list[Sentence]) -> list[Any]:
        return [sentence.heads for sentence in self.predict(sentences)]


def test_text_and_words_become_trees() -> None:
    pipeline = Pipeline(Capitals(), Flat())
    first, second = pipeline.predict(["Ann sleeps.", ["Bob", "ran"]])  # type: ignore[list-item]
    assert first.forms == ["Ann", "sleeps", "."] and first.coarse_tags == ["PROPN", "X", "X"]
    assert second.forms == ["Bob", "ran"] and list(second.heads) == [0, 1]
    assert list(pipeline.parse(["Ann sleeps."])[0]) == [0, 1, 1]
    fine = Pipeline(Capitals(), Flat(), fine_tagger=Capitals())
    assert fine.predict(["Ann sleeps."])[0].fine_tags == ["PROPN", "X", "X"]


@pytest.mark.parametrize("given", ["Ann sleeps.", [], None, iter(["Ann"])])
def test_a_list_is_wanted(given: Any) -> None:
    with pytest.raises(ValueError, match=r"a list of sentences is wanted, not .*: give \[sentence\]"):
        Pipeline(Capitals(), Flat()).parse(given)


@pytest.mark.parametrize("sentence", ["", [], [None], 3])
def test_sentences_have_words(sentence: Any) -> None:
    with pytest.raises(ValueError, match=r"sentence 1 is .*a text or a list of words, at least one"):
        Pipeline(Capitals(), Flat()).parse(["Ann", sentence])
