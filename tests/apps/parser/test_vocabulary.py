"""Words, rare words, digits."""

from __future__ import annotations

from loopwise.apps.parser.vocabulary import ParserVocabulary, encode
from loopwise.formats.conllu import make_sentence


def test_unknown_words_rare_words_and_digits() -> None:
    twice = [make_sentence(["a", "rare", "1999"], ["X", "X", "X"]), make_sentence(["a", "2001"], ["X", "X"])]
    vocabulary = ParserVocabulary.learn(twice, cutoff=2)
    assert vocabulary.words == ("0000", "a")
    corpus = encode([make_sentence(["a", "rare", "1234", "\U0001f600"], ["X", "NEW", "X", "X"])], vocabulary)
    assert corpus.tokens[0, 2:6].tolist() == [4, 2, 3, 2]
    assert corpus.tokens[3, 2:6].tolist() == [3, 2, 3, 3]
